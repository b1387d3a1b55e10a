"""Files of volumes: list, upload, download. What was interrupted goes on where it was."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes, unquote, unquote_to_bytes

import click

from berth_cli import completing
from berth_cli.carrying import Lost, Place, last_line, send, take, unreachable
from berth_cli.client import EXIT_CONFLICT, EXIT_USAGE, ApiError
from berth_cli.context import Session, with_session
from berth_cli.output import printable, refused, size

PAGE = 1000


@click.command("files")
@click.argument("place", shell_complete=completing.volumes)
@click.option("--search", metavar="WORD", help="Look for names below the folder instead.")
@with_session
def files(s: Session, place: str, search: str | None) -> None:
    """List VOLUME or VOLUME:FOLDER."""
    name, path = _parted(place)
    there = Place(s, name)
    there.open()
    rows = list(_found(there, path, search) if search else entries(there, path))
    s.show(rows, _COLUMNS)


ENTRIES: Any = (
    ("NAME", lambda r: r["name"] + ("/" if r["kind"] == "folder" else "")),
    ("KIND", lambda r: r["kind"]),
    ("SIZE", lambda r: size(r["size"]) if r["kind"] == "file" else None),
    ("CHANGED", lambda r: time.strftime("%Y-%m-%d %H:%M", time.localtime(r["modified"]))),
)
_COLUMNS: Any = (*ENTRIES, ("PATH", lambda r: r["path"]))


def entries(there: Place, path: str) -> Iterator[dict[str, Any]]:
    """Yield what is in a folder, a page at a time."""
    offset = 0
    while True:
        query = {"path": path, "offset": offset, "limit": PAGE}
        said = there.json("GET", "list", params=query)
        yield from said["entries"]
        offset += PAGE
        if offset >= said["total"]:
            return


def _found(there: Place, path: str, words: str) -> Iterator[dict[str, Any]]:
    try:
        answer = there.ask("GET", "search", params={"path": path, "q": words})
    except Lost as lost:
        raise unreachable(lost) from lost
    ended = last_line(answer)
    for line in answer.text.splitlines():
        yield from json.loads(line).get("entries", ())
    if not ended["done"]["complete"]:
        click.echo("This is not all: there is more than can be looked through at once.", err=True)


# --- upload -----------------------------------------------------------------------------------


@click.command("upload")
@click.argument("place", shell_complete=completing.volumes)
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--replace", is_flag=True, help="Overwrite files that are there.")
@click.option("--keep-both", is_flag=True, help="Give a new name where one is taken.")
@with_session
def upload(
    s: Session, place: str, sources: Sequence[Path], *, replace: bool, keep_both: bool
) -> None:
    """Upload files and folders into VOLUME or VOLUME:FOLDER; run again to go on."""
    if replace and keep_both:
        raise ApiError("Say --replace or --keep-both, not both.", EXIT_USAGE)
    conflict = "replace" if replace else "keep-both" if keep_both else "refuse"
    name, folder = _parted(place)
    there = Place(s, name)
    there.open()
    unread: list[OSError] = []
    failed = 0
    for source, path in files_to_send(sources, folder, unread):
        try:
            if source.is_dir():
                there.json("POST", "mkdir", json={"path": path, "parents": True})
            else:
                send(there, source, path, conflict)
        except ApiError as error:
            failed += 1
            click.echo(f"{printable(str(source))}: {error}", err=True)
        except OSError as error:
            error.filename = error.filename or str(source)
            unread.append(error)
    for one in unread:
        click.echo(refused(one), err=True)
    failed += len(unread)
    if failed:
        raise ApiError(f"{failed} of them could not be uploaded.", EXIT_CONFLICT)


def files_to_send(
    sources: Sequence[Path], folder: str, unread: list[OSError]
) -> Iterator[tuple[Path, str]]:
    """Yield what is to be sent; links and special files are left out and named.

    ``unread`` becomes what this machine does not let one look into.
    """
    for source in sources:
        top = source.absolute().name
        if source.is_file():
            yield source, _below(folder, top)
            continue
        yield source, _below(folder, top)
        for here, folders, names in os.walk(source, onerror=unread.append):
            inner = Path(here).relative_to(source)
            way = _below(folder, top, *(() if inner == Path() else inner.parts))
            for one in (*sorted(folders), *sorted(names)):
                path = Path(here) / one
                if path.is_symlink() or not (path.is_dir() or path.is_file()):
                    click.echo(f"Left out (no ordinary file): {printable(str(path))}", err=True)
                else:
                    yield path, _below(way, one)


# --- download ---------------------------------------------------------------------------------


@click.command("download")
@click.argument("place", shell_complete=completing.volumes)
@click.argument("target", default=".", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Overwrite files that are there.")
@with_session
def download(s: Session, place: str, target: Path, *, replace: bool) -> None:
    """Download VOLUME:PATH, a file or a folder, into TARGET; run again to go on."""
    name, path = _parted(place)
    there = Place(s, name)
    there.open()
    if path:
        found = there.json("GET", "stat", params={"path": path})
    else:
        found = {"kind": "folder", "path": "", "name": name}
    if found["kind"] == "folder":
        inside = target / (_local(path) if path else name)
        left = sum(_take_folder(there, path, inside, replace=replace))
        if left:
            raise ApiError(f"{left} of them were not downloaded.", EXIT_CONFLICT)
        return
    if target.is_dir():
        target /= _local(path)
    take(there, path, target, replace=replace)


def _take_folder(there: Place, path: str, target: Path, *, replace: bool) -> Iterator[int]:
    """Yield 1 for each thing that was not downloaded."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in entries(there, path):
        inside = target / _local(entry["path"])
        if entry["kind"] == "folder":
            yield from _take_folder(there, entry["path"], inside, replace=replace)
        elif entry["kind"] != "file":
            click.echo(f"Left out ({entry['kind']}): {printable(entry['name'])}", err=True)
            yield 1
        else:
            try:
                take(there, entry["path"], inside, replace=replace)
            except (ApiError, OSError) as error:
                why = error if isinstance(error, ApiError) else refused(error)
                click.echo(f"{printable(entry['name'])}: {why}", err=True)
                yield 1


# --- unpack -----------------------------------------------------------------------------------


@click.command("extract")
@click.argument("place", shell_complete=completing.volumes)
@with_session
def extract(s: Session, place: str) -> None:
    """Unpack the zip or tar archive VOLUME:PATH into a new folder beside it."""
    name, path = _parted(place)
    there = Place(s, name)
    there.open()
    try:
        done = last_line(there.ask("POST", "extract", json={"path": path}))["done"]
    except Lost as lost:
        raise unreachable(lost) from lost
    if said := _READ_AS.get(done.get("names", "")):
        click.echo(said, err=True)
    for left in done["left_out"]:
        click.echo(f"Left out ({left['code']}): {printable(unquote(left['path']))}", err=True)
    if more := done["skipped"] - len(done["left_out"]):
        click.echo(f"… and {more} more", err=True)
    s.show([done], _UNPACKED)


_READ_AS = {
    "utf-8": "Its names were read as UTF-8.",
    "cp932": "Its names were read as Shift-JIS.",
    "cp437": "It does not say how its names are written; they may look wrong.",
}
_UNPACKED: Any = (
    ("FOLDER", lambda r: printable(unquote(r["path"]))),
    ("FILES", lambda r: r["files"]),
    ("SIZE", lambda r: size(r["bytes"])),
    ("LEFT OUT", lambda r: r["skipped"]),
)


# --- small things -------------------------------------------------------------------------------


def _parted(place: str) -> tuple[str, str]:
    """Return (volume, path as it travels) of VOLUME or VOLUME:PATH."""
    name, _colon, path = place.partition(":")
    return name, _below("", *(part for part in path.split("/") if part))


def _below(folder: str, *names: str) -> str:
    parts = [quote_from_bytes(os.fsencode(name), safe="") for name in names]
    return "/".join([folder, *parts] if folder else parts)


def _local(path: str) -> str:
    """Return the last name of a path for a file of this machine."""
    name = os.fsdecode(unquote_to_bytes(path.rpartition("/")[2]))
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise ApiError("This name can't be a file here.", EXIT_USAGE)
    return name
