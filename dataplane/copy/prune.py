"""Deletes what the store doesn't have, after a whole and successful listing only."""

from __future__ import annotations

from dataplane.copy import keys
from dataplane.copy.engine import Engine
from dataplane.copy.keys import is_text
from dataplane.copy.problems import Code, Stop, Trouble, of_os, stopped
from dataplane.copy.walk import walk
from dataplane.safepath import Folder, UnsafePath

_SOME = 500


def prune(engine: Engine) -> None:
    """Delete files in the folder that were not listed. Excluded ones are nobody's business.

    Neither is anything deleted where a folder of the store could not be listed.
    An empty listing deletes nothing: a prefix with a slip of the pen would empty the folder.
    """
    progress = engine.progress
    if not progress.found or not progress.listed or engine.gaps:
        return
    progress.phase = "deleting"
    chosen = keys.chosen_by(engine.plan.include, engine.plan.exclude)
    some: list[str] = []
    for path, _ in walk(engine.state.folder, top=not engine.plan.folder, missed=_left):
        if chosen is None or chosen(path):
            some.append(path)
        if engine.state.stopping.is_set():
            raise stopped()
        if len(some) == _SOME:
            _delete(engine, some)
            some = []
    _delete(engine, some)


def _left(_path: str, _trouble: Trouble) -> None:
    """What can't be looked at is not deleted either, and nobody asked for it."""


def _delete(engine: Engine, paths: list[str]) -> None:
    readable = [path for path in paths if is_text(path)]
    kept = engine.state.journal.listed(readable)
    gone = []
    for path in paths:
        if path in kept:
            continue
        try:
            engine.state.folder.unlink(path)
        except FileNotFoundError:
            pass
        except UnsafePath:
            _kept(engine, path, Trouble(Code.BAD_KEY, "The path is too long to be opened."))
            continue
        except OSError as error:
            meant = of_os(error)
            if isinstance(meant, Stop):
                raise meant from None
            _kept(engine, path, meant)
            continue
        engine.progress.deleted += 1
        gone.append(path)
        _empty_folders(engine.state.folder, path)
    engine.state.journal.drop(path for path in gone if is_text(path))


def _kept(engine: Engine, path: str, trouble: Trouble) -> None:
    """Name a file that could not be deleted; it is no object that a retry could copy."""
    engine.progress.found += 1
    engine.fails(path, trouble, again=False)


def _empty_folders(root: Folder, path: str) -> None:
    above = path.rpartition("/")[0]
    while above:
        try:
            root.rmdir(above)
        except OSError:
            return
        above = above.rpartition("/")[0]
