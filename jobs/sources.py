"""Where the code of a job comes from, read from its field. Pure: nothing is asked.

``package:SHA256`` was sent before. ``git+https://HOST/PATH@REF#subdirectory=FOLDER`` is spelled as
pip spells it, and so is ``git+ssh://USER@HOST/PATH@REF``; without a ref it is the repository's
usual branch. ``volume:NAME/FOLDER`` lies in a volume that the job has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PACKAGE, VOLUME = "package:", "volume:"
_SSH = "git+ssh://"
_NAME = r"[A-Za-z0-9_~][A-Za-z0-9._~-]*"
_FOLDER = r"[^/\x00-\x1f]+(?:/[^/\x00-\x1f]+)*"
_REPOSITORY = (
    r"git\+(?:https://|ssh://(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})@)?)"
    rf"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{{1,5}})?)"
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
    """``host`` may name a port; ``ref`` "": its usual branch; ``folder`` "": all of it.

    ``user`` is the one of a repository over SSH that was said.
    """

    is_ssh: bool
    user: str
    host: str
    path: str
    suffix: str  # ".git" or ""
    ref: str
    folder: str

    @property
    def url(self) -> str:
        user = f"{self.user}@" if self.user else ""
        return f"{'ssh' if self.is_ssh else 'https'}://{user}{self.where}{self.suffix}"

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
    is_ssh = code.startswith(_SSH)
    said["host"] = said["host"].lower().removesuffix(":22" if is_ssh else ":443")
    return Repository(is_ssh=is_ssh, **{**said, "path": path, "suffix": suffix})


def in_volume(code: str) -> str:
    """Return VOLUME or VOLUME/FOLDER, "" where the code lies elsewhere."""
    return code.removeprefix(VOLUME) if code.startswith(VOLUME) else ""
