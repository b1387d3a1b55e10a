"""The extension of JupyterLab by which a workspace's page tells that it is about to end, and by
which a notebook or script of it is run as a job.

It lies where Lab looks for prebuilt ones (``labextensions/``); an older Lab leaves it alone.
"""

from functools import cache
from pathlib import Path

NAME = "@berth/notices"
_SCHEMAS = f"schemas/{NAME}"  # where Lab looks for what a plugin adds to toolbars and menus
FOLDERS = ("static", _SCHEMAS)
_HERE = Path(__file__).parent
_FILES = {
    "package.json": "package.json",
    "static/notices.js": "static/notices.js",
    f"{_SCHEMAS}/run.json": "run.json",
}


@cache
def files() -> dict[str, str]:
    """Return its files by their names in its folder."""
    return {name: (_HERE / source).read_text() for name, source in _FILES.items()}
