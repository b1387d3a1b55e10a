"""The ``berth`` command that does the same as a form: what was said, and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import join
from typing import TYPE_CHECKING, Any

from credentials.selectors import credentials_named
from placement.decision import names_in
from volumes.selectors import volume_named
from work import fields as f
from work import kinds
from work.attached import READ_ONLY
from work.ui.pages import pages_of

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project
    from work.attached import Attached
    from work.kinds import Kind

_MIB = 1024
_MOST_LINES = 10  # more of them belong into a document
_ANY = "any"  # kind of GPU


RUN = ("run",)


def command_of(
    kind: Kind,
    said: Mapping[str, Any],
    *,
    project: str,
    name: str,
    verb: Sequence[str] = RUN,
    group: str = "",
    begins: Sequence[str] = (),
) -> str:
    """Return the command; ``name`` is what it would be called. "": it would be too long.

    ``begins``: options that say what it begins as.

    As in the document beside it, values of variables are in it: whoever sees it typed them.
    """
    words = ["berth", group or kind.word, *verb]
    words += [str(said[x.name]) for x in kind.table if x.argument and x.name in said]
    words += [*begins, "--project", project, "--name", name]
    behind: Sequence[str] = ()
    for field in kind.table:
        value = said.get(field.name)
        if value is None or field.name == "name" or field.argument:
            continue
        if isinstance(field, f.Lines) and len(value) > _MOST_LINES:
            return ""
        if field.name == "command" and verb == RUN:
            behind = value
        else:
            words += _words(field, value)
    return join([*words, "--", *behind] if behind else words)


def command_made_by(who: Principal, row: Any) -> str:
    """Return the command that makes the same again; "" of a kind whose pages have none."""
    pages, kind = pages_of(row), kinds.kind_of(row.kind)
    if not pages.repeats:
        return ""
    plain = kind.new(who, row.project, {})
    told = {n: value for n, value in kind.own.read(row, private=True).items() if value}
    said = told_apart(kind, told, plain, plain) | dict(pages.named(who, row))
    there = {"project": row.project.slug, "name": row.name}
    return command_of(kind, said, **there, verb=(pages.verb,), group=pages.group)


def _words(field: f.Field, value: Any) -> list[str]:  # noqa: C901, PLR0911 - one case per type
    name = field.option or field.name.replace("_", "-")
    option = f"--{name}"
    match field:
        case f.Count(unit=f.Unit.CORES):
            return [option, f"{value / field.unit:g}"]
        case f.Count(unit=f.Unit.GIB):
            return [option, f"{value // _MIB}G" if value % _MIB == 0 else f"{value}M"]
        case f.Flag():
            return [option] if value else [f"--no-{name}"]
        case f.Environment():
            return [part for key, text in value.items() for part in (option, f"{key}={text}")]
        case f.Words():
            return [option, join(value)]
        case f.Names() if field.has_usual and not value:
            return [f"--no-{field.name.replace('_', '-')}"]
        case f.Names() | f.Lines():
            return [part for item in value for part in (option, str(item))]
        case f.Ports() if field.has_usual and not value:
            return [f"--no-{field.name}"]
        case f.Ports():
            said = [(str(x["port"]), x["name"], "" if x["web"] else "private") for x in value]
            return [part for x in said for part in (option, ":".join(x).rstrip(":"))]
        case f.Devices():
            return [part for item in (names_in(value) or [_ANY]) for part in (option, item)]
        case _:
            return [option, str(value)]


def told_apart(kind: Kind, said: Mapping[str, Any], plain: Any, usual: Any) -> dict[str, Any]:
    """Return of what was said what is not so by itself.

    ``plain`` is a row of which nothing was said, ``usual`` one whose defaults follow what was.
    """
    found = {}
    for name, value in said.items():
        field = kind.table[name]
        before = plain if isinstance(field, f.Choice) else usual
        if name in kind.attachments or not field.is_same(before, field.clean(value)):
            found[name] = value
    return found


def attached_named(who: Principal, project: Project, given: Attached) -> dict[str, list[str]]:
    """Return what is attached by what means it alone: its name, else its id."""
    return {
        "volumes": [
            f"{volume_named(who, project, one.volume)}{READ_ONLY * one.read_only}"
            for one in given.volumes
        ],
        "credentials": list(credentials_named(who, project, given.credentials)),
        "needs": [one.name for one in given.needs],
    }
