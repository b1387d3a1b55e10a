"""Workspaces: launch, look, open, stop, resume, delete; the same object as in the page."""

from __future__ import annotations

from typing import Any

import click

from berth_cli import completing
from berth_cli.client import EXIT_CONFLICT, EXIT_ERROR, EXIT_NOT_FOUND, ApiError
from berth_cli.context import Session, with_session
from berth_cli.documents import Kind, Waiting, register
from berth_cli.lazy import LazyGroup
from berth_cli.output import age, cpus, mib, moment
from berth_cli.work import Row, Work, gpus

_ON_ITS_WAY = {"stopped": "stopping", "absent": "deleting", "running": "starting"}
_SETTLED = frozenset({"running", "stopped", "failed", "deleted"})


def state_of(row: Row) -> str:
    """Return how it is; of what was just asked for and is not seen yet, what is on its way."""
    phase, wish = str(row["status"]["phase"]), row["desired"]
    asked = row["status"]["observed_generation"] < row["generation"]
    stands = phase in _SETTLED or wish != "running"  # what waits to start says for what
    return _ON_ITS_WAY.get(wish, phase) if asked and stands and phase != wish else phase


def _pinned(spec: dict[str, Any]) -> str:
    """Return which bytes its starts take, and since when."""
    words = (spec["image_digest"], moment(spec["image_pinned_at"]))
    return " since ".join(filter(None, words))


_COLUMNS: Any = (
    ("ID", lambda r: r["id"]),
    ("NAME", lambda r: r["name"]),
    ("OWNER", lambda r: r["owner"]),
    ("STATE", state_of),
    ("REASON", lambda r: r["status"].get("message") or r["status"].get("reason")),
    ("GPUS", gpus),
    ("SIZE", lambda r: f"{cpus(r['spec']['cpu_milli'])} CPU, {mib(r['spec']['memory_mib'])}"),
    ("AGE", lambda r: age(r["created_at"])),
    ("ENDS", lambda r: moment(r.get("ends_at"))),
)
_ONE: Any = (
    *_COLUMNS,
    ("CLUSTER", lambda r: r["spec"]["cluster"]),
    ("NODE", lambda r: r["status"].get("node")),
    ("IMAGE", lambda r: r["spec"]["image"] or r["spec"]["environment"]),
    ("PINNED", lambda r: _pinned(r["spec"])),
    ("ADDRESS", lambda r: r["status"].get("url")),
    ("PORTS", lambda r: [f"{p['name']} {p['url']}" for p in r["status"]["ports"]]),
)


@click.group(
    cls=LazyGroup,
    elsewhere={
        "exec": "inside:exec_",
        **{name: f"inside:{name}" for name in ("files", "ssh", "terminal")},
    },
)
def workspace() -> None:
    """Workspaces: JupyterLab on the resources you ask for."""


class _Workspaces(Work):
    word = "workspace"
    ends = "workspace stop"
    columns = _COLUMNS
    one = _ONE
    complete = staticmethod(completing.workspaces)
    settled = _SETTLED
    group = workspace

    def state(self, row: Row) -> str:
        return state_of(row)

    def is_settled(self, row: Row) -> bool:
        fresh = row["status"]["observed_generation"] >= row["generation"]
        return fresh and super().is_settled(row)

    def end(self, s: Session, row: Row, *, ended: bool) -> None:  # noqa: ARG002
        if self.state(row) == "failed":
            said = ": ".join(filter(None, (f"{row['name']} failed", self.why(row))))
            raise ApiError(said, EXIT_ERROR)

    def is_over(self, s: Session, path: str, part: Row) -> bool:  # noqa: ARG002
        return s.client.get(path)["status"]["phase"] in _SETTLED - {"running"}


WORKSPACE = _Workspaces()
register("Workspace", Kind("workspaces", WORKSPACE.settle))


@workspace.command("launch")
@click.argument("preset", required=False, shell_complete=completing.presets)
@WORKSPACE.creates()
@with_session
def launch(s: Session, preset: str | None, *, wanted: Waiting, **said: Any) -> None:
    """Launch a workspace from a PRESET (the first one if none is named)."""
    own = {"preset": preset} if preset else {}
    WORKSPACE.create(s, said, own, wanted=wanted)


WORKSPACE.add_list()
WORKSPACE.add_show("Show one workspace.")
WORKSPACE.add_logs("Print what a workspace wrote.", follow="Go on as lines come.")
WORKSPACE.add_act("stop", "Stop: files, packages and address are kept, GPUs go back.", ends=True)
WORKSPACE.add_act(
    "resume",
    "Start a stopped workspace again; a parked one goes ahead of newcomers.",
    path="start",
    plain="At once and without GPUs; “regain” asks for them later.",
)
WORKSPACE.add_act("park", "Give its GPUs to others and go on later, where it was.", ends=True)
WORKSPACE.add_act("regain", "Ask for the GPUs again that it went on without; it restarts.")
WORKSPACE.add_act("repin", "Take the newest image of its tag; what runs or failed starts with it.")
WORKSPACE.add_keep()
WORKSPACE.add_extend()
WORKSPACE.add_edit("Change a workspace; one that runs starts again where its process must.")
WORKSPACE.add_delete("Delete a workspace and its installed packages. The home folder stays.")


@workspace.command("open")
@click.argument("name", shell_complete=completing.workspaces)
@click.option("--print", "only_print", is_flag=True, help="Print the address, open nothing.")
@with_session
def open_(s: Session, name: str, *, only_print: bool) -> None:
    """Open a running workspace in the browser."""
    open_page(WORKSPACE.find(s, name), only_print=only_print)


def open_page(row: Row, *, only_print: bool) -> None:
    """Open the page of one that runs, and print where it is."""
    url = _address(row)
    click.echo(url)
    if not only_print:
        import webbrowser

        webbrowser.open(url)


def _address(row: Row) -> str:
    """Return where its page is, or say why there is none for whoever asks."""
    name, phase = row["name"], row["status"]["phase"]
    if row["access"] == "none":
        raise ApiError(
            f"{name} is not yours: only {row['owner']}, and the people they let in, may open it.",
            EXIT_NOT_FOUND,
        )
    if phase != "running":
        raise ApiError(f"{name} is {phase}. Run: berth workspace resume {row['id']}", EXIT_CONFLICT)
    if not row["status"]["url"]:
        raise ApiError(
            f"{name} has no page. Use: berth workspace terminal {row['id']}", EXIT_CONFLICT
        )
    return str(row["status"]["url"])
