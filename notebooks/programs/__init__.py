"""Programs of workspaces, handed over as text (``python3 -c``) to whatever Python there is."""

from functools import cache
from pathlib import Path

LACKS = 69  # its exit code where there is no TensorBoard
_HERE = Path(__file__).parent


@cache
def tensorboard() -> str:
    """Return the text of ``tensorboard.py``, which shows what runs write."""
    return (_HERE / "tensorboard.py").read_text()
