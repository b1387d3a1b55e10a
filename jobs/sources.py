"""Where the code of a job comes from, read from its field. Pure: nothing is asked.

``package:SHA256`` was sent before. ``git+https://HOST/PATH@REF#subdirectory=FOLDER`` is spelled as
pip spells it; without a ref it is the repository's usual branch. ``volume:NAME/FOLDER`` lies in a
volume that the job has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PACKAGE, VOLUME, GIT = "package:", "volume:", "git+https://"
_NAME = r"[A-Za-z0-9_~][A-Za-z0-9._~-]*"
_FOLDER = r"[^/\x00-\x1f]+(?:/[^/\x00-\x1f]+)*"
_REPOSITORY = (
    rf"git\+https://(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{{1,5}})?)"
    rf"/(?P<path>{_NAME}(?:/{_NAME})*?)(?P<suffix>\.git)?/?"
    r"(?:@(?P<ref>(?![-/.])(?!\S*(?:\.\.|//|/$))[^\s\x00-\x1f~^:?*\[\\#@]+))?"
    rf"(?:#subdirectory=(?P<folder>(?!(?:.*/)?\.\.?(?:/|$)){_FOLDER}))?"
)
_IN_VOLUME = (
    r"volume:(?P<volume>(?!\.\.?(?:/|$))[^/\x00-\x1f]{1,63})"
    rf"(?:/(?!(?:.*/)?\.\.?(?:/|$)){_FOLDER})?"
)
_COMMIT = re.compile(r"\A(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")


def _unnamed(pattern: str) -> str:
    return re.sub(r"\(\?P<\w+>", "(?:", pattern)


PATTERN = "|".join((r"package:[0-9a-f]{64}", _unnamed(_REPOSITORY), _unnamed(_IN_VOLUME)))


@dataclass(frozen=True)
class Repository:
    """``host`` may name a port; ``ref`` "": its usual branch; ``folder`` "": all of it."""

    host: str
    path: str
    suffix: str  # ".git" or ""
    ref: str
    folder: str

    @property
    def url(self) -> str:
        return f"https://{self.where}{self.suffix}"

    @property
    def where(self) -> str:
        return f"{self.host}/{self.path}"

    @property
    def is_pinned(self) -> bool:
        return _COMMIT.match(self.ref) is not None

    def at(self, ref: str) -> str:
        """Return the field's text for another ref of the same."""
        folder = f"#subdirectory={self.folder}" if self.folder else ""
        return f"git+{self.url}@{ref}{folder}"


def repository(code: str) -> Repository | None:
    """Return what a field names, where that is a repository."""
    found = re.fullmatch(_REPOSITORY, code)
    if found is None:
        return None
    said = found.groupdict(default="")
    path = said["path"].removesuffix(".git")  # a name may have dots, so it has taken that in
    suffix = ".git" if path != said["path"] else said["suffix"]
    return Repository(**{**said, "host": said["host"].lower(), "path": path, "suffix": suffix})


def in_volume(code: str) -> str:
    """Return VOLUME or VOLUME/FOLDER, "" where the code lies elsewhere."""
    return code.removeprefix(VOLUME) if code.startswith(VOLUME) else ""
