"""Which request does what, and what runs beside the requests."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from dataplane.files import asking, changing, extracting, memory, names, reading, zipping
from dataplane.files.http import Answer, Asked, Sent
from dataplane.files.listing import Listings
from dataplane.files.names import Refusal, item_of, path_of
from dataplane.files.reading import download
from dataplane.files.tree import Tree, entry_json, policy_of
from dataplane.files.uploads import Uploads

WALKS = 4  # questions and copies that walk through the volume at once
CLEAN_EVERY_S = 60.0
_SELECTIONS, _SELECTED, _SELECTED_LETTERS = 32, 10_000, 4_000_000


class Files:
    """One volume. ``answer`` is what the HTTP server calls."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.uploads = Uploads(tree)
        self._listings = Listings()
        self._walks = threading.BoundedSemaphore(WALKS)
        self._selections: OrderedDict[str, list[str]] = OrderedDict()
        self._stopping = threading.Event()
        self._routes: dict[tuple[str, str], Answer] = {
            ("GET", "info"): self._info,
            ("GET", "list"): self._list,
            ("GET", "stat"): self._stat,
            ("GET", "preview"): self._preview,
            ("GET", "raw"): self._raw,
            ("GET", "file"): self._file,
            ("HEAD", "file"): self._file,
            ("PUT", "file"): self._put,
            ("GET", "zip"): self._zip,
            ("POST", "selection"): self._select,
            ("GET", "usage"): self._usage,
            ("GET", "search"): self._search,
            ("POST", "count"): self._count,
            ("POST", "mkdir"): self._mkdir,
            ("POST", "rename"): self._rename,
            ("POST", "move"): self._move,
            ("POST", "copy"): self._copy,
            ("POST", "extract"): self._extract,
            ("POST", "delete"): self._delete,
            ("POST", "restore"): self._restore,
        }

    def answer(self, asked: Asked) -> Sent:
        words = asked.words
        if words[:1] == ("uploads",):
            return self._upload(asked, words[1:])
        route = self._routes.get((asked.method, words[0])) if len(words) == 1 else None
        if route is None:
            raise Refusal(404, "no-such-act", "There is no such act.")
        return route(asked)

    def tend(self) -> None:
        """Purge what was deleted and drop what nobody went on with, until ``stop``."""
        while not self._stopping.is_set():
            with contextlib.suppress(OSError, Refusal):
                self.uploads.clean()
                changing.purge(self.tree)
            self._stopping.wait(CLEAN_EVERY_S)

    def stop(self) -> None:
        self._stopping.set()

    # --- reading ----------------------------------------------------------------------------

    def _info(self, asked: Asked) -> Sent:
        del asked
        with self.tree.opened() as top:
            about = os.fstatvfs(top.fd)
        return Sent(
            {
                "read_only": self.tree.read_only,
                "free": about.f_bavail * about.f_frsize,
                "size": about.f_blocks * about.f_frsize,
                "undo_s": changing.KEPT_S,
            }
        )

    def _list(self, asked: Asked) -> Sent:
        with self.tree.opened() as top:
            return Sent(
                self._listings.page(
                    top,
                    path_of(asked.one("path")),
                    asked.share(),
                    sort=asked.one("sort", "name"),
                    descending=asked.one("order") == "desc",
                    offset=asked.number("offset", 0),
                    limit=asked.number("limit", 200),
                )
            )

    def _stat(self, asked: Asked) -> Sent:
        path = item_of(asked.one("path"))
        with self.tree.opened() as top:
            info = top.stat(path)
            return Sent({**entry_json(path, info), "names": info.st_nlink})

    def _preview(self, asked: Asked) -> Sent:
        with self.tree.opened() as top:
            return Sent(reading.preview(top, item_of(asked.one("path")), asked.share()))

    def _raw(self, asked: Asked) -> Sent:
        with self.tree.opened() as top:
            fd, size, kind = reading.image(top, item_of(asked.one("path")))
        return Sent(file=fd, length=size, headers={"Content-Type": kind})

    def _file(self, asked: Asked) -> Sent:
        return download(self.tree, item_of(asked.one("path")), asked.headers)

    def _zip(self, asked: Asked) -> Sent:
        if chosen := asked.one("selection"):
            paths = self._selections.get(chosen)
            if paths is None:
                raise Refusal(404, "no-selection", "This selection is not known any more.")
        else:
            paths = [path_of(asked.one("path"))]
        name = names.split(paths[0])[1] if len(paths) == 1 else ""
        name = names.readable(name or asked.one("name") or "files") + ".zip"
        attached = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
        headers = {"Content-Type": "application/zip", "Content-Disposition": attached}
        with self.tree.opened() as top:
            for path in paths:
                if path:
                    top.stat(path)  # a name that is wrong is an answer, not an empty archive
        return Sent(parts=self._walking(self._zipped(paths)), headers=headers)

    def _zipped(self, paths: list[str]) -> Iterator[bytes]:
        with self.tree.opened() as top:
            yield from zipping.archive(top, paths)

    def _select(self, asked: Asked) -> Sent:
        """Keep a selection for a download that follows: an address can't hold it."""
        return Sent({"id": self._keep_selection(_paths(asked.json()))}, 201)

    def _keep_selection(self, paths: list[str]) -> str:
        made, kept = secrets.token_hex(16), self._selections
        kept[made] = paths
        while len(kept) > 1 and (
            len(kept) > _SELECTIONS
            or sum(len(path) for some in kept.values() for path in some) > _SELECTED_LETTERS
        ):
            kept.popitem(last=False)
        return made

    # --- questions ----------------------------------------------------------------------------

    def _usage(self, asked: Asked) -> Sent:
        seconds = float(asked.number("seconds", int(asking.USUAL_S)))
        return self._lines(asking.usage(self.tree, path_of(asked.one("path")), seconds=seconds))

    def _search(self, asked: Asked) -> Sent:
        seconds = float(asked.number("seconds", int(asking.USUAL_S)))
        path, words = path_of(asked.one("path")), asked.one("q")
        return self._lines(asking.search(self.tree, path, words, seconds=seconds))

    def _count(self, asked: Asked) -> Sent:
        seconds = float(asked.number("seconds", 20))
        return self._lines(asking.count(self.tree, _paths(asked.json()), seconds=seconds))

    def _lines(self, lines: Iterator[Mapping[str, Any]]) -> Sent:
        return Sent(lines=self._walking(lines))

    def _walking(self, inner: Iterator[Any]) -> Iterator[Any]:
        """Few walks at once: they are what a slow file system feels."""
        with memory.LINE.turn(self._walks):
            yield from inner

    # --- changing -----------------------------------------------------------------------------

    def _mkdir(self, asked: Asked) -> Sent:
        said = asked.json()
        parents = said.get("parents") is True
        return Sent(changing.make_folder(self.tree, _item(said, "path"), parents=parents), 201)

    def _rename(self, asked: Asked) -> Sent:
        said = asked.json()
        path, to = _item(said, "path"), _item(said, "to")
        return Sent(changing.rename(self.tree, path, to, policy_of(said)))

    def _move(self, asked: Asked) -> Sent:
        said = asked.json()
        folder = path_of(str(said.get("to", "")))
        return Sent(changing.move(self.tree, _paths(said), folder, policy_of(said)))

    def _copy(self, asked: Asked) -> Sent:
        said = asked.json()
        folder = path_of(str(said.get("to", "")))
        return self._lines(
            changing.copy(self.tree, _paths(said), folder, policy_of(said), asked.room)
        )

    def _extract(self, asked: Asked) -> Sent:
        path = _item(asked.json(), "path")
        return self._lines(extracting.extract(self.tree, path, asked.room))

    def _delete(self, asked: Asked) -> Sent:
        said = asked.json()
        if said.get("forever") is True:
            return self._lines(changing.remove(self.tree, _paths(said)))
        return Sent(changing.set_aside(self.tree, _paths(said)))

    def _restore(self, asked: Asked) -> Sent:
        return Sent(changing.bring_back(self.tree, str(asked.json().get("id", ""))))

    # --- uploads ------------------------------------------------------------------------------

    def _put(self, asked: Asked) -> Sent:
        modified = asked.number("modified", -1)
        said = {
            "path": asked.one("path"),
            "size": asked.length,
            "conflict": asked.one("conflict", "refuse"),
            "modified": modified if modified >= 0 else None,
        }
        check = asked.headers.get("X-Berth-Checksum", "")
        done = self.uploads.put(
            said, person=asked.person, room=asked.room, body=asked.body, check=check
        )
        asked.took_body()
        return Sent(done, 201)

    def _upload(self, asked: Asked, words: tuple[str, ...]) -> Sent:
        person = asked.person
        match (asked.method, words):
            case ("GET", ()):
                return Sent({"uploads": self.uploads.mine(person)})
            case ("POST", ()):
                return Sent(self.uploads.begin(asked.json(), person=person, room=asked.room), 201)
            case ("GET", (upload_id,)):
                return Sent(self.uploads.state(upload_id, person))
            case ("PATCH", (upload_id,)):
                found = self.uploads.append(
                    upload_id,
                    asked.person,
                    offset=asked.number("offset", -1),
                    body=asked.body,
                    length=asked.length,
                    check=asked.headers.get("X-Berth-Checksum", ""),
                )
                asked.took_body()
                return Sent(found)
            case ("DELETE", (upload_id,)):
                self.uploads.drop(upload_id, person)
                return Sent({"done": True})
            case ("POST", (upload_id, "finish")):
                said = asked.json()
                sha256, conflict = str(said.get("sha256", "")), str(said.get("conflict", ""))
                if conflict:
                    policy_of(said)
                lines = self.uploads.finish(upload_id, person, sha256=sha256, conflict=conflict)
                return Sent(lines=lines)
            case _:
                raise Refusal(404, "no-such-act", "There is no such act.")


def _item(said: Mapping[str, Any], name: str) -> str:
    return item_of(str(said.get(name, "")))


def _paths(said: Mapping[str, Any]) -> list[str]:
    """Several things; what lies in another one of them is left to that one."""
    given = said.get("paths")
    if not isinstance(given, list) or not given or len(given) > _SELECTED:
        raise Refusal(400, "bad-request", "Say which files and folders (paths).")
    wanted = dict.fromkeys(item_of(str(path)) for path in given)
    return [path for path in wanted if not any(up in wanted for up in _above(path))]


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def tending(files: Files) -> threading.Thread:
    thread = threading.Thread(target=files.tend, name="tend", daemon=True)
    thread.start()
    return thread
