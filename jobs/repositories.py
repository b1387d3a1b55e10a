"""One commit of a Git repository, packed as jobs are run with it.

How large it is, is known before a file of it is written; it is read as it comes, and lies on no
disk as a whole but as the pack that was sent and the package that is kept.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import shutil
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from django.conf import settings

from jobs.fenced_git import PROBLEMS, Git, NotFetchedError
from jobs.packages import MAX_FILES, MAX_UNPACKED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobs.fenced_git import Login
    from jobs.sources import Repository

_STALE_S = 3600.0
_PREFIX = "berth-code-"
_MODULE = "160000"  # the mode of a submodule
_POINTER = b"version https://git-lfs.github.com/spec/"
_POINTER_SIZE = 1024
_CHUNK = 64 * 1024
_NAMED = 20  # of what was left out


@dataclass(frozen=True)
class Commit:
    """``packed`` is open at its beginning. ``left_out``: modules, and pointers to large files."""

    sha: str
    packed: IO[bytes]
    left_out: dict[str, list[str]]


@contextlib.contextmanager
def fetched(
    source: Repository, login: Login | None, goes_on: Callable[[], None]
) -> Iterator[Commit]:
    """Fetch what ``source`` names now. ``goes_on`` is called again and again, and may raise."""
    tidy()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        git = Git(source, login, Path(folder), goes_on)
        git("init", "--quiet", "--bare", "--template=", ".")
        # as it is checked out, whatever the repository says of archives
        git.write("info/attributes", "* -export-ignore -export-subst -text -filter -ident\n")
        ref = source.ref or "HEAD"
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
        with git.connection() as around:
            try:
                git("fetch", *options, source.url, ref, env=around)
            except NotFetchedError as error:
                if error.text != PROBLEMS["moved"] or source.suffix:
                    raise
                git("fetch", *options, f"{source.url}.git", ref, env=around)
        sha = git("rev-parse", "--verify", "FETCH_HEAD^{commit}").strip()
        tree = f"{sha}:{source.folder}"
        entries = list(_entries(git, tree))
        with tempfile.TemporaryFile() as packed:
            pointers = _pack(git, tree, packed)
            modules = [name for mode, name in entries if mode == _MODULE]
            left = {"modules": modules[:_NAMED], "pointers": pointers[:_NAMED]}
            packed.seek(0)
            yield Commit(sha, packed, {name: names for name, names in left.items() if names})


def tidy() -> None:
    """Remove what a worker that was killed left behind."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_mtime < time.time() - _STALE_S:
                shutil.rmtree(folder, ignore_errors=True)


def _entries(git: Git, tree: str) -> Iterator[tuple[str, str]]:
    """Yield mode and name of each entry, or raise where there are too many, or too large ones."""
    files = total = 0
    rest = b""
    with git.reading("ls-tree", "-r", "-l", "-z", "--full-tree", tree) as stream:
        while part := stream.read(_CHUNK):
            git.look()
            *lines, rest = (rest + part).split(b"\0")
            if len(rest) > _CHUNK:
                raise git.problem("other")  # no name is so long
            for line in lines:
                head, _tab, name = line.decode("utf-8", "surrogateescape").partition("\t")
                mode, _kind, _object, size = head.split()
                files, total = files + 1, total + (int(size) if size.isdecimal() else 0)
                if files > MAX_FILES:
                    raise git.problem("many", n=MAX_FILES)
                if total > MAX_UNPACKED:
                    raise git.problem("large", n=MAX_UNPACKED // 2**20)
                yield mode, name


def _pack(git: Git, tree: str, packed: IO[bytes]) -> list[str]:
    """Pack a tree so that the same commit gives the same bytes; return the pointers in it.

    Of what links lead to, the archive is read a second time: it is nowhere as a whole.
    """
    pointers: list[str] = []
    links: dict[str, list[str]] = {}  # by what they lead to
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as made,
    ):
        package = _Package(git, made, packed)
        for entry, content in _archived(git, tree):
            if entry.issym():
                links.setdefault(_target(entry), []).append(entry.name)
                continue
            if content is not None and entry.size < _POINTER_SIZE:
                data = content.read()
                pointers += [entry.name] if data.startswith(_POINTER) else []
                content = io.BytesIO(data)  # noqa: PLW2901
            package.add(entry.name, entry, content)
        for entry, content in _archived(git, tree) if links else ():
            names = links.pop(entry.name, []) if content is not None else []
            with tempfile.TemporaryFile() as held:
                if names and content is not None:
                    shutil.copyfileobj(content, held)
                for name in names:
                    held.seek(0)
                    package.add(name, entry, held)
    for lost in links.values():
        raise git.problem("link", name=lost[0][:80].encode(errors="replace").decode())
    return pointers


class _Package:
    """What is written, until it is too much."""

    def __init__(self, git: Git, made: tarfile.TarFile, packed: IO[bytes]) -> None:
        self._git, self._made, self._packed = git, made, packed
        self._left = MAX_UNPACKED

    def add(self, name: str, entry: tarfile.TarInfo, content: IO[bytes] | None) -> None:
        self._left -= entry.size
        if self._left < 0:  # links to one large file
            raise self._git.problem("large", n=MAX_UNPACKED // 2**20)
        kept = tarfile.TarInfo(name)
        kept.type, kept.size, kept.mode = entry.type, entry.size, entry.mode | 0o600
        self._made.addfile(kept, content)
        if self._packed.tell() > settings.BERTH_PACKAGE_MIB * 2**20:
            raise self._git.problem("large", n=settings.BERTH_PACKAGE_MIB)


def _archived(git: Git, tree: str) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield each entry of a tree as it comes, with its content where it is a file."""
    with (
        git.reading("archive", "--format=tar", tree) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        for entry in tar:
            git.look()
            yield entry, tar.extractfile(entry) if entry.isreg() else None


def _target(link: tarfile.TarInfo) -> str:
    """Return the name of what a link leads to, "" where that is outside."""
    parts = list(PurePosixPath(link.name).parent.parts)
    if link.linkname.startswith("/"):
        return ""
    for part in link.linkname.split("/"):
        if part == ".." and not parts:
            return ""
        if part == "..":
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)
