"""Walking a tree page by page, with nothing kept but the way back: pure.

A file system lists one folder at a time, a thousand names a page. Where a walk is, is its token:
for each folder above, the folders of its latest page that are still to come, and the name after
which its next page begins. So a walk needs memory for one page a level, however wide a tree is.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from dataplane.copy.head import Broken


class Level(NamedTuple):
    folder: str
    names: list[str]  # folders in it that are still to come
    after: str  # its next page begins behind this name; "": there is none


class Step(NamedTuple):
    """What is listed now, and what is left when it was."""

    folder: str
    after: str
    left: list[Level]


def step(root: str, token: str) -> Step:
    """Return what the page of this token lists."""
    if not token:
        return Step(root, "", [])
    left = [Level(*level) for level in json.loads(token)]
    above = left.pop()
    if above.names:
        left.append(above._replace(names=above.names[1:]))
        return Step(below(above.folder, above.names[0]), "", _unfinished(left))
    return Step(above.folder, above.after, left)


def token_after(at: Step, folders: list[str], after: str) -> str:
    """Return the next page's token, when this one had these folders; "" when it was the last."""
    if after and after == at.after:
        raise Broken("The store's listing comes again to what it has listed.")
    left = _unfinished([*at.left, Level(at.folder, folders, after)])
    return json.dumps(left, ensure_ascii=False) if left else ""


def below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _unfinished(left: list[Level]) -> list[Level]:
    return [level for level in left if level.names or level.after]
