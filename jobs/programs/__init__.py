"""Programs that run beside what people wrote, in their own environment or image.

They are handed over as text (``python3 -c``): nothing of Berth has to be installed there.
"""

from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent


@cache
def runner() -> str:
    """Return the text of ``run_file.py``, which runs notebooks and smoke runs."""
    return (_HERE / "run_file.py").read_text()
