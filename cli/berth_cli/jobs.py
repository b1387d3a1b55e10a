"""Batch jobs: run, follow, cancel, delete; the same object as in the page."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import click

from berth_cli import completing, inside_workspace
from berth_cli.client import EXIT_CONFLICT, EXIT_ERROR, EXIT_USAGE, ApiError
from berth_cli.context import Session, with_session
from berth_cli.documents import Kind, Waiting, register
from berth_cli.fields import field_set
from berth_cli.following import show_log
from berth_cli.output import age, cpus, mib, moment
from berth_cli.packages import package_sent
from berth_cli.work import DAY_S, Row, Work, gpus

_OPENS_S = 60.0  # a file browser
_WITH_RUN = re.compile(r"(?s)^(.*?)(?::([0-9]+))?$")  # JOB or JOB:RUN; a name may have colons
_OVER = frozenset({"succeeded", "failed", "cancelled"})
_BEGAN = _OVER | {"running", "cancelling"}
_COLUMNS: Any = (
    ("ID", lambda r: r["id"]),
    ("NAME", lambda r: r["name"]),
    ("OWNER", lambda r: r["owner"]),
    ("STATE", lambda r: r["status"]["state"]),
    ("EXIT", lambda r: r["exit_code"]),
    ("REPLICAS", lambda r: r["spec"]["replicas"]),
    ("GPUS", gpus),
    ("SIZE", lambda r: f"{cpus(r['spec']['cpu_milli'])} CPU, {mib(r['spec']['memory_mib'])}"),
    ("AGE", lambda r: age(r["created_at"])),
    ("REASON", lambda r: r["status"]["message"]),
)
_ONE: Any = (
    *_COLUMNS,
    ("CLUSTER", lambda r: r["spec"]["cluster"]),
    ("IMAGE", lambda r: r["spec"]["image"] or r["spec"]["environment"]),
    ("STARTED", lambda r: moment(r["started_at"])),
    ("FINISHED", lambda r: moment(r["finished_at"])),
    ("ENDS", lambda r: moment(r["ends_at"])),
)
_REPLICAS: Any = (
    ("REPLICA", lambda r: r["index"]),
    ("ROLE", lambda r: r["role"]),
    ("STATE", lambda r: r["state"]),
    ("EXIT", lambda r: r["exit_code"]),
    ("NODE", lambda r: r["node"]),
    ("RESTARTS", lambda r: r["restarts"]),
    ("REASON", lambda r: r["reason"]),
)


def _code(run: Row) -> str:
    """Return which code it ran, of a repository the commit."""
    said = run["said"].get("code") or ""
    if said.startswith("volume:"):
        return "volume, not kept"
    return run["commit"][:12] if run["commit"] else said[:20]


_RUNS: Any = (
    ("RUN", lambda r: r["run"]),
    ("ENDED", lambda r: r["how"]),
    ("EXIT", lambda r: r["exit_code"]),
    ("BY", lambda r: r["by"]),
    ("ASKED", lambda r: moment(r["asked_at"])),
    ("CODE", _code),
    ("NODES", lambda r: ", ".join(r["nodes"])),
)
_OUTPUT: Any = (
    ("RUN", lambda r: r["run"]),
    ("STATE", lambda r: r["state"]),
    ("FILES", lambda r: r["files"]),
    ("BYTES", lambda r: r["bytes"]),
    ("IN", lambda r: f"{r['volume']}/{r['folder']}" if r["volume"] else "-"),
    ("TO", lambda r: r["url"] or "-"),
    ("REASON", lambda r: r["message"]),
)
_ARTIFACTS: Any = (
    ("SIZE", lambda r: r["size"]),
    ("FILE", lambda r: r["path"]),
    ("AT", lambda r: r["url"] or ""),
)
_GOODPUT: Any = (
    ("CAUSE", lambda r: r["cause"]),
    ("GPU-HOURS", lambda r: f"{r['hours']:.2f}"),
    ("SHARE", lambda r: f"{r['share']:.0%}"),
)


@click.group()
def job() -> None:
    """Batch jobs: a program on one or several replicas that runs to its end."""


class _Jobs(Work):
    word = "job"
    ends = "job cancel"
    columns = _COLUMNS
    one = _ONE
    complete = staticmethod(completing.jobs)
    settled = _OVER
    group = job
    wait_help = "Follow its state; end with its own exit code."
    wait_s = DAY_S

    def is_settled(self, row: Row) -> bool:
        return super().is_settled(row) or row["desired"] == "absent"

    def end(self, s: Session, row: Row, *, ended: bool) -> None:  # noqa: ARG002
        """End the command as the job's program ended; a job that had none as any error."""
        state = self.state(row)
        if state == "succeeded" or ended:
            return
        how = "failed" if state == "failed" else f"is {state}"
        said = ": ".join(filter(None, (f"{row['name']} {how}", self.why(row))))
        if state != "failed":
            raise ApiError(said, EXIT_CONFLICT)
        raise ApiError(said, row["exit_code"] or EXIT_ERROR)

    def why(self, row: Row) -> str:
        """Add what its program said of its failure, or its smoke run."""
        return "\n".join(filter(None, (super().why(row), row["status"].get("failure"))))

    def show_more(self, s: Session, row: Row) -> None:
        if row["replicas"]:
            click.echo()
            s.show(row["replicas"], _REPLICAS)

    def print_log(self, s: Session, row: Row, wanted: Waiting) -> None:
        """Print the log of its first replica until all has ended; what never began has none."""
        timeout = wanted.timeout
        deadline = time.monotonic() + timeout

        def is_over(part: Row) -> bool:
            if not part["over"]:
                self.require_time(row, deadline, timeout)
            return bool(part["over"])

        with self.going_on(row):
            row = self.follow(s, row, timeout=timeout, until=lambda r: self.state(r) in _BEGAN)
            if row["started_at"]:
                show_log(s, f"{self.path(s, row)}/logs", follow=True, is_over=is_over)
            row = self.follow(s, row, timeout=deadline - time.monotonic())
        if s.fmt != "table":
            s.show(row)
        self.end(s, row, ended=False)


JOB = _Jobs()
register("Job", Kind("jobs", JOB.settle))


@job.command("run", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@JOB.creates(but=("command",))
@click.option(
    "--package-path",
    type=click.Path(file_okay=False),
    help="Folder of code that is sent along; COMMAND starts in the folder that holds it.",
)
@click.option("--follow", is_flag=True, help="As --wait, and print its log as lines come.")
@click.option(
    "--from-workspace/--no-workspace",
    "origin",
    default=None,
    help="As the workspace that this is typed in, which is usual there: its packages and files.",
)
@click.option("--workspace", metavar="NAME", help="As a workspace of yours, from elsewhere.")
@with_session
def run(
    s: Session,
    command: tuple[str, ...],
    *,
    wanted: Waiting,
    follow: bool,
    package_path: str | None,
    **said: Any,
) -> None:
    """Run COMMAND to its end: berth job run --gpus 1 -- python train.py --epochs 3

    Without one the image's own program runs. Nothing of it is expanded, here or there. A lone
    notebook (train.ipynb) is run cell by cell, and its result kept beside it.
    """
    own: Row = {"command": list(command)} if command else {}
    if len(command) == 1 and command[0].endswith(".ipynb"):
        own = {"script": command[0]}
    own |= _origin(said.pop("workspace"), here=said.pop("origin"), workdir=said["workdir"])
    if package_path and said["code"]:
        raise click.UsageError("Say --package-path or --code, not both.")
    if package_path and (sent := package_sent(s, Path(package_path), plan=said["plan"])):
        own["code"] = f"package:{sent}"
    wanted = replace(wanted, wait=wanted.wait or follow)
    JOB.create(s, said, own, wanted=wanted, then=JOB.print_log if follow else None)


def _origin(name: str | None, *, here: bool | None, workdir: str | None) -> dict[str, Any]:
    """Return the workspace that a job is made in, and where in its home: that of this terminal."""
    inside = inside_workspace.is_inside()
    if name or here is False or not inside:
        if here and not (name or inside):
            raise ApiError("This is no terminal of a workspace: say --workspace NAME.", EXIT_USAGE)
        return {"workspace": name} if name and here is not False else {}
    found = {"workspace": inside_workspace.inside().workspace}
    folder = inside_workspace.workdir()
    if workdir is None and folder:
        found["workdir"] = folder
    where = "~" if not folder else f"~/{folder}"
    if folder is None:
        where = "~ (this folder is not below your home)"
    click.echo(
        f"As this workspace, in {where}: its packages, files, credentials. Else: --no-workspace",
        err=True,
    )
    return found


JOB.add_list(states="queued, running, succeeded, failed or cancelled.")
JOB.add_show("Show one job and how each of its replicas ended.")
JOB.add_logs(
    "Print what a replica of a job wrote.",
    click.option(
        "--replica", type=click.IntRange(0), default=0, show_default=True, help="Whose log."
    ),
    follow="Go on as lines come, until it has ended.",
)


@job.command("goodput")
@click.argument("name", metavar="JOB", shell_complete=completing.jobs)
@click.argument("run", type=click.IntRange(1), required=False)
@with_session
def goodput(s: Session, name: str, run: int | None) -> None:
    """Show what the time of a run came to, from its press to its end: of the latest, or of RUN."""
    asked = f"?run={run}" if run else ""
    found = s.client.get(f"{JOB.path(s, JOB.find(s, name))}/goodput{asked}")
    if s.fmt != "table":
        s.show(found)
        return
    whole = found["whole_gpu_seconds"]
    lines = [
        {"cause": cause, "hours": seconds / 3600, "share": seconds / whole}
        for cause, seconds in found["gpu_seconds"].items()
    ]
    s.show(lines, _GOODPUT)
    if steps := found["steps"]:
        usual = f"{steps['usual_seconds']:.3g} s each"
        click.echo(f"\n{steps['count']} steps, usually {usual}")
    if found["advice"]:
        click.echo(f"\n{found['advice']}")


@job.command("runs")
@click.argument("name", metavar="[JOB]", required=False, shell_complete=completing.jobs)
@with_session
def runs(s: Session, name: str | None) -> None:
    """List the runs of a job, or of all jobs of the project, the newest first."""
    if name is not None:
        s.show(list(s.client.pages(f"{JOB.path(s, JOB.find(s, name))}/runs")), _RUNS)
        return
    columns = (("JOB", lambda r: r["name"]), *_RUNS)
    s.show(list(s.client.pages(f"{JOB.base(s)}/runs")), columns)


@job.command("diff")
@click.argument("name", metavar="JOB", shell_complete=completing.jobs)
@click.argument("a", type=click.IntRange(1))
@click.argument("b", type=click.IntRange(1))
@with_session
def diff(s: Session, name: str, a: int, b: int) -> None:
    """Show what runs A and B of a job differ in: what was said, the code, how they ended."""
    found = s.client.get(f"{JOB.path(s, JOB.find(s, name))}/runs/diff", a=a, b=b)
    if s.fmt != "table":
        s.show(found)
        return
    lines = [*found["said"], *found["ended"]]
    lines += [{"name": path, "a": "", "b": how} for path, how in found["files"].items()]
    columns = (("FIELD", "name"), (f"RUN {a}", "a"), (f"RUN {b}", "b"))
    s.show(lines, tuple((head, itemgetter(key)) for head, key in columns))


@job.command("again")
@click.argument("name", metavar="JOB", shell_complete=completing.jobs)
@click.argument("run", type=click.IntRange(1))
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="With this changed, such as replicas=4; variables as a whole. May be repeated.",
)
@with_session
def again(s: Session, name: str, run: int, pairs: tuple[str, ...]) -> None:
    """Start what a run of a job was, with its image and commit: that becomes the job's."""
    changes = field_set(JOB.word, pairs)
    path = f"{JOB.path(s, JOB.find(s, name))}/runs/{run}/again"
    s.show(s.client.post(path, changes), _ONE)


@job.command("artifacts")
@click.argument("name", metavar="JOB", shell_complete=completing.jobs)
@click.argument("run", type=click.IntRange(1), required=False)
@click.option("--again", "copied_again", is_flag=True, help="Copy once more what is not there yet.")
@with_session
def artifacts(s: Session, name: str, run: int | None, *, copied_again: bool) -> None:
    """Show what a run of a job left, of the latest where RUN is not said, and where it lies."""
    row = JOB.find(s, name)
    if run is None:
        newest = next(iter(s.client.pages(f"{JOB.path(s, row)}/runs")), None)
        if newest is None:
            raise ApiError("It has no run yet.")
        run = newest["run"]
    path = f"{JOB.path(s, row)}/runs/{run}/artifacts"
    found = s.client.post(f"{path}/copy") if copied_again else s.client.get(path)
    if s.fmt != "table":
        s.show(found)
        return
    s.show(found, _OUTPUT)
    if found["named"]:
        click.echo()
        s.show(found["named"], _ARTIFACTS)
    if (more := found["files"] - len(found["named"])) > 0:
        click.echo(f"{more} more files", err=True)
    if found["volume"] and not found["named"]:
        _show_files(s, f"{path}/files")
    if found["volume"]:
        click.echo(f"berth volumes files {found['volume']}:{found['folder']}", err=True)


def _show_files(s: Session, path: str) -> None:
    """Show what lies in the folder of a run now, once its file browser is open."""
    deadline = time.monotonic() + _OPENS_S
    while not (there := s.client.post(path))["is_open"] and time.monotonic() < deadline:
        time.sleep(0.5)
    if there["files"]:
        click.echo()
        s.show(there["files"], _ARTIFACTS[:2])
    said = "" if there["complete"] else "There are more than could be counted."
    if said := there["message"] or said:
        click.echo(said, err=True)


@job.command("tensorboard")
@click.argument("name", metavar="JOB", shell_complete=completing.jobs)
@click.argument("runs", metavar="[RUN]...", type=click.IntRange(1), nargs=-1)
@click.option("--beside", metavar="JOB[:RUN]", multiple=True, help="Of another job, too.")
@click.option("--print", "only_print", is_flag=True, help="Print the address, open nothing.")
@click.option("--timeout", type=float, default=300.0, show_default=True, help="Seconds to wait.")
@with_session
def tensorboard(
    s: Session,
    name: str,
    runs: tuple[int, ...],
    *,
    beside: tuple[str, ...],
    only_print: bool,
    timeout: float,
) -> None:
    """Open TensorBoard on what a run of a job writes: the latest, or several beside each other.

    It is a workspace of yours that stops when nobody looks: berth workspace stop, delete.
    """
    path = JOB.path(s, JOB.find(s, name))
    said: dict[str, Any] = {"runs": list(runs)} if runs else {}
    for words in beside:
        name, run = _WITH_RUN.findall(words)[0]
        said.setdefault("beside", []).append(f"{JOB.find(s, name)['id']}{run and '.'}{run}")
    open_tensorboard(s, path, said, only_print=only_print, timeout=timeout)


def open_tensorboard(
    s: Session, path: str, said: dict[str, Any], *, only_print: bool, timeout: float
) -> None:
    """Ask for the TensorBoard of what is at ``path``, wait for it and open it."""
    from berth_cli.workspaces import WORKSPACE, open_page

    made = s.client.post(f"{path}/tensorboard", said)
    row = WORKSPACE.follow(s, WORKSPACE.find(s, made["workspace"]), timeout=timeout)
    WORKSPACE.end(s, row, ended=False)
    open_page(row, only_print=only_print)


JOB.add_act("start", "Run one that has ended again, as it is set.")
JOB.add_act("cancel", "End it; what it wrote to volumes stays.", ends=True, within=300.0)
JOB.add_keep()
JOB.add_extend()
JOB.add_edit("Change its name or time limit; of one that has ended, what its next run is.")
JOB.add_delete(
    "Delete a job and its log. What it wrote to volumes stays.",
    left="what it wrote to volumes stays",
)
