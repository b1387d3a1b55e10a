"""The verbs that every kind of work has, and following one until it stands still.

``Work`` is one kind: its module says what is its own, and names the verbs that it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

import click

from berth_cli.client import EXIT_TIMEOUT, EXIT_USAGE, ApiError
from berth_cli.context import Session, with_session
from berth_cli.documents import (
    Waiting,
    apply_alone,
    emit_plan,
    file_option,
    patch,
    plan_option,
    waiting,
)
from berth_cli.fields import field_body, field_options, fields_of
from berth_cli.following import EVERY_S, Told, patiently, show_log
from berth_cli.naming import confirm, given, one_of, telling_credentials_apart, why, yes_option
from berth_cli.output import Column, age, moment, printable

DAY_S = 86400.0
_ABSENT = "absent"
_NOTICE: Sequence[Column] = (
    ("IDLE SINCE", lambda r: age(r["since"])),
    ("THEN", lambda r: r["act"]),
    ("AT", lambda r: moment(r["at"])),
)
GONE = "deleted"  # the state of what is not there any more
Row = dict[str, Any]
Over = Callable[[Row], bool]


def gpus(row: Row) -> str:
    """Return how many GPUs a row asks for, and whether there are any such."""
    count = "" if row["spec"].get("gpus") is None else str(row["spec"]["gpus"])
    return f"{count} (simulated)" if row.get("gpus_simulated") else count


class Work:
    """One kind of work: how its rows are shown, when they stand still, and its commands."""

    word: str  # of one; also that of its fields
    ends: str  # the command that ends one
    columns: Sequence[Column]
    one: Sequence[Column]
    complete: Callable[..., Any]
    settled: frozenset[str]  # states in which nothing changes by itself
    group: click.Group
    wait_help = "Wait until it is done."
    wait_s = 300.0
    in_place = False  # what is told is written over on a terminal
    stores: Sequence[str | None] = (None,)  # the kinds of credentials that one can be given

    def state(self, row: Row) -> str:
        return str(row["status"]["state"])

    def line(self, row: Row) -> str:
        """Return what is told of one that is followed; why it is over is said at the end."""
        why = "" if self.state(row) in self.settled else self.why(row)
        return ": ".join(filter(None, (self.state(row), why)))

    def is_settled(self, row: Row) -> bool:
        return self.state(row) in self.settled

    def end(self, s: Session, row: Row, *, ended: bool) -> None:
        """Raise ApiError where one that was waited for came to no good end.

        ``ended``: to end it was what was asked for.
        """

    def show_wait(self, row: Row) -> None:
        """Print when the turn of one that waits comes, and what would start it sooner."""
        wait = row.get("wait")
        if not wait:
            return
        click.echo()
        said = (wait["sentence"], f"Its turn: {wait['when']}.", wait.get("honesty", ""))
        click.echo(printable(" ".join(filter(None, said))))
        if wait["ahead"]:
            click.echo(printable(f"Before it: {wait['ahead']}."))
        called = {one["name"]: one["option"] for one in fields_of(self.word)}
        for change in wait["changes"]:
            options = " ".join(f"--{called[name]} {v}" for name, v in change["said"].items())
            command = f"berth {self.group.name} edit {row['id']} {options}"
            click.echo(printable(f"  {change['text']}: {command}"))

    def show_way_back(self, row: Row) -> None:
        """Print when one that gave its GPUs back has them again, were they asked for now."""
        if back := row.get("way_back"):
            count = "Its GPU" if back["gpus"] == 1 else f"Its {back['gpus']} GPUs"
            said = f"{count}: {back['sentence']}. {back['void']}"
            click.echo(printable(f"\n{said.rstrip()}"))

    def show_more(self, s: Session, row: Row) -> None:
        """Print below the table of one what does not fit into it."""

    def is_over(self, s: Session, path: str, part: Row) -> bool:  # noqa: ARG002
        """Whether nothing follows this part of its log."""
        return bool(part["over"])

    def describes(self, *, edits: bool = False) -> Callable[[Any], Any]:
        """Return what adds the options that describe one; ``edits``: those that may change."""
        return field_options(self.word, edits=edits)

    def body(self, said: Row) -> Row:
        """Return what the API takes for the options of ``describes``."""
        return field_body(self.word, said)

    def base(self, s: Session) -> str:
        return f"projects/{s.project}/{self.word}s"

    def path(self, s: Session, row: Row) -> str:
        return f"{self.base(s)}/{row['id']}"

    def find(self, s: Session, name: str) -> Row:
        """Return one by id or by name."""
        return one_of(s, self.base(s), name, self.word)

    def why(self, row: Row) -> str:
        """Return what the portal says of the state, and what can be done about it."""
        status = row["status"]
        return " ".join(filter(None, (status.get("message"), status.get("advice"))))

    def settle(self, s: Session, row: Row, wanted: Waiting, *, ended: bool = False) -> None:
        """Print one, after it stands still where that was asked."""
        if wanted.wait:
            with self.going_on(row):
                row = self.follow(s, row, timeout=wanted.timeout)
        s.show(row, self.one)
        if wanted.wait:
            self.end(s, row, ended=ended)

    @contextmanager
    def going_on(self, row: Row) -> Iterator[None]:
        """Say that work does not end with the command that follows it."""
        try:
            yield
        except KeyboardInterrupt:
            if row["desired"] == "running":
                said = f"{row['name']} goes on. To end it: berth {self.ends} {row['id']}"
                click.echo(f"\n{said}", err=True)
            raise

    def follow(self, s: Session, row: Row, *, timeout: float, until: Over | None = None) -> Row:
        """Tell each change of its state until it stands still, or is as ``until`` says."""
        deadline = time.monotonic() + timeout
        until = until or self.is_settled
        whens: dict[str, str] = {}
        with Told(in_place=self.in_place) as told:
            while True:
                pull = row["status"].get("pull") or {}
                line = self.line(row)
                if wait := row.get("wait"):  # as it was said first: minutes pass by themselves
                    line = whens.setdefault(line, f"{line} {wait['when']}")
                told.tell(line, counts_since=pull.get("since"))
                if self.state(row) == GONE or until(row):
                    return row
                self.require_time(row, deadline, timeout)
                time.sleep(EVERY_S)
                ask = partial(s.client.get, self.path(s, row))
                try:
                    row = patiently(ask, deadline=deadline)
                except ApiError as error:
                    if error.status != HTTPStatus.NOT_FOUND or row["desired"] != _ABSENT:
                        raise
                    seen = {"state": GONE, "phase": GONE, "observed_generation": row["generation"]}
                    row = {**row, "status": {**row["status"], **seen}}

    def require_time(self, row: Row, deadline: float, timeout: float) -> None:
        if time.monotonic() > deadline:
            said = f"Still {self.state(row)} after {timeout:.0f} s; it goes on. {self.why(row)}"
            raise ApiError(said.rstrip(), EXIT_TIMEOUT)

    def post(self, s: Session, body: Row, **query: Any) -> Row:
        """Make one, or plan it."""
        names = body.get("credentials") or [body.get("credential", "")]
        with telling_credentials_apart(s, names, self.stores):
            return dict(s.client.post(self.base(s), body, **query))

    def waits(self, command: Any, *, within: float | None = None) -> Any:
        """Add the options of waiting."""
        return waiting(command, within=within or self.wait_s, text=self.wait_help)

    def creates(self, *, but: Sequence[str] = ()) -> Callable[[Any], Any]:
        """Return what adds the options of making one, from a table of fields or from a file."""

        def add(command: Any) -> Any:
            return field_options(self.word, but=but)(file_option(plan_option(self.waits(command))))

        return add

    def create(
        self,
        s: Session,
        said: Row,
        own: Mapping[str, Any],
        *,
        wanted: Waiting,
        then: Callable[[Session, Row, Waiting], None] | None = None,
    ) -> None:
        """Make what was ``said``, and ``own`` besides; ``then``: what follows it."""
        if said["file"]:
            apply_alone(s, said["file"], plan=said["plan"], wanted=wanted)
            return
        body = {**self.body(said), **own}
        if said["plan"]:
            emit_plan(s, self.post(s, body, plan=1))
        elif then:
            then(s, self.post(s, body), wanted)
        else:
            self.settle(s, self.post(s, body), wanted)

    def add_list(self, *, states: str = "") -> None:
        """Add ``list``; ``states``: to which it can be narrowed, in words."""

        @click.option(
            "--all", "everyone", is_flag=True, help="Also those of others in the project."
        )
        @with_session
        def run(s: Session, *, everyone: bool, state: str | None = None) -> None:
            rows = s.client.pages(self.base(s), mine=None if everyone else 1, state=state)
            s.show(list(rows), self.columns)

        if states:
            run = click.option("--state", help=states)(run)
        self.group.command("list", help=f"List {self.word}s of the project.")(run)

    def add_show(self, text: str) -> None:
        @self._one("show", text)
        @with_session
        def run(s: Session, name: str) -> None:
            row = self.find(s, name)
            s.show(row, self.one)
            if s.fmt == "table":
                self.show_wait(row)
                self.show_way_back(row)
                self.show_more(s, row)

    def add_logs(self, text: str, *which: Any, follow: str) -> None:
        """Add ``logs``; ``which``: options that say whose, as the API calls them."""

        @click.option("--follow", "-f", is_flag=True, help=follow)
        @with_session
        def run(s: Session, name: str, *, follow: bool, **query: Any) -> None:
            path = self.path(s, self.find(s, name))
            over = partial(self.is_over, s, path)
            show_log(s, f"{path}/logs", follow=follow, is_over=over, **query)

        for option in which:
            run = option(run)
        self._one("logs", text)(run)

    def add_act(
        self,
        verb: str,
        text: str,
        *,
        path: str = "",
        ends: bool = False,
        within: float | None = None,
        plain: str = "",
    ) -> None:
        """Add a verb that is one call; ``ends``: it ends work, maybe that of somebody else.

        ``plain``: what it does with ``--cpu``.
        """

        @with_session
        def run(
            s: Session, name: str, *, wanted: Waiting, reason: str = "", cpu: bool = False
        ) -> None:
            call = "plain" if cpu else path or verb
            answer = s.client.post(f"{self.path(s, self.find(s, name))}/{call}", given(reason))
            self.settle(s, answer, wanted, ended=ends)

        run = self.waits(run, within=within)
        run = click.option("--cpu", is_flag=True, help=plain)(run) if plain else run
        self._one(verb, text)(why(run) if ends else run)

    def add_keep(self) -> None:
        """Add ``keep``: what is idle goes on for a while."""

        @click.option("--minutes", type=click.IntRange(1), help="As its policy says by default.")
        @click.option("--reason", "-m", help="What for; asked when it was put off often.")
        @with_session
        def run(s: Session, name: str, *, minutes: int | None, reason: str | None) -> None:
            row = self.find(s, name)
            said = {k: v for k, v in (("minutes", minutes), ("reason", reason)) if v is not None}
            answer = s.client.post(f"projects/{s.project}/idle/{row['uid']}/extend", said)
            s.show(answer["notice"], _NOTICE)

        self._one("keep", f"Keep one {self.word} that is idle: what would follow is put off.")(run)

    def add_extend(self) -> None:
        """Add ``extend``: the end by its time limit is moved."""

        @click.argument("minutes", type=click.IntRange(1))
        @with_session
        def run(s: Session, name: str, *, minutes: int) -> None:
            path = self.path(s, self.find(s, name))
            s.show(s.client.post(f"{path}/extend", {"minutes": minutes}), self.one)

        self._one("extend", f"Move the end of a {self.word} by MINUTES.")(run)

    def add_edit(self, text: str) -> None:
        """Add ``edit``, with an option for each field that may change later."""

        @click.argument("which", metavar="NAME", shell_complete=self.complete)
        @self.describes(edits=True)
        @plan_option
        @with_session
        def run(s: Session, which: str, *, plan: bool, **said: Any) -> None:
            body = self.body(said)
            if not body:
                raise ApiError("Say what to change.", EXIT_USAGE)
            path = self.path(s, self.find(s, which))
            names = body.get("credentials") or [body.get("credential", "")]
            with telling_credentials_apart(s, names, self.stores):
                patch(s, path, body, self.one, plan=plan)

        self.group.command("edit", help=text)(run)

    def add_delete(self, text: str, *, left: str = "") -> None:
        """Add ``delete``; ``left``: what stays, said at its end; "": it prints, and may wait."""

        @yes_option
        @why
        @with_session
        def run(
            s: Session,
            name: str,
            *,
            yes: bool,
            reason: str,
            wanted: Waiting | None = None,
        ) -> None:
            row = self.find(s, name)
            asked = f"This deletes the {self.word} {row['name']}."
            confirm(asked, row["name"], yes=yes, outcome="deleted")
            answer = s.client.call("DELETE", self.path(s, row), params=given(reason))
            if wanted is None:
                click.echo(f"{row['name']} is being deleted; {left}.", err=True)
            else:
                row = answer or {**row, "desired": _ABSENT}
                self.settle(s, row, wanted, ended=True)

        self._one("delete", text)(run if left else self.waits(run))

    def _one(self, verb: str, text: str) -> Callable[[Any], click.Command]:
        """Return what makes a command about one of it of a function."""

        def made(run: Any) -> click.Command:
            run = click.argument("name", shell_complete=self.complete)(run)
            return self.group.command(verb, help=text)(run)

        return made
