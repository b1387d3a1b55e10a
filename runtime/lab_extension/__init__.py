"""The extension of JupyterLab by which a workspace's page tells that it is about to end.

It lies where Lab looks for prebuilt ones (``labextensions/``); an older Lab leaves it alone.
"""

from functools import cache
from pathlib import Path

NAME = "@berth/notices"
FOLDERS = ("static",)
_HERE = Path(__file__).parent
_FILES = ("package.json", "static/notices.js")


@cache
def files() -> dict[str, str]:
    """Return its files by their names in its folder."""
    return {name: (_HERE / name).read_text() for name in _FILES}
