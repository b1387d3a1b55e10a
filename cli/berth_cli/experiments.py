"""Searches for parameters: begin one of a file, look at it, stop it, keep the best."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Any

import click

from berth_cli.client import EXIT_ERROR, EXIT_NOT_FOUND, EXIT_USAGE, ApiError
from berth_cli.context import Session, with_session
from berth_cli.documents import Kind, Waiting, register
from berth_cli.naming import given
from berth_cli.output import emit

_LIST: Any = (
    ("NAME", lambda r: r["name"]),
    ("STATE", lambda r: r["state"]),
    ("METRIC", lambda r: r["metric"]),
    ("TRIALS", lambda r: f"{r['done']}/{r['trials_max']}"),
    ("OWNER", lambda r: r["owner"]),
    ("ID", lambda r: r["id"]),
)
_TRIALS: Any = (
    ("TRIAL", lambda r: r["number"]),
    ("STATE", lambda r: r["state"]),
    ("VALUE", lambda r: "-" if r["value"] is None else f"{r['value']:g}"),
    ("PARAMETERS", lambda r: " ".join(f"{k}={v}" for k, v in r["parameters"].items())),
    ("JOB", lambda r: r["job"] or "-"),
)


@click.group()
def experiment() -> None:
    """Searches: the same job with other values, until the best are found."""


@experiment.command("create")
@click.option("-f", "--file", required=True, help="A YAML document (- is standard input).")
@with_session
def experiment_create(s: Session, file: str) -> None:
    """Begin the search that a file describes (kind: Experiment)."""
    from berth_cli.manifests import documents_of  # YAML takes a tenth of the time of a list

    for document in documents_of(file):
        if document.pop("kind", "Experiment") != "Experiment":
            raise ApiError(f"{file}: its kind is Experiment.", EXIT_USAGE)
        made = s.client.call("POST", f"projects/{s.project}/experiments", json_body=document)
        emit([made] if s.fmt == "table" else made, fmt=s.fmt, columns=_LIST)


def _settle(s: Session, made: dict[str, Any], wanted: Waiting) -> None:
    """Print what a file made; it may be waited for."""
    address, until = f"projects/{s.project}/experiments/{made['id']}", monotonic() + wanted.timeout
    while wanted.wait and made["state"] in {"running", "stopping"}:
        if monotonic() > until:
            raise ApiError(f"{made['name']} is not over yet.", EXIT_ERROR)
        sleep(1)
        made = s.client.call("GET", address)
    emit([made] if s.fmt == "table" else made, fmt=s.fmt, columns=_LIST)


register("Experiment", Kind("experiments", _settle))


def _how_long(command: Any) -> Any:
    """Add what may be changed of a search; it takes what was said as ``said``."""
    for option in (
        click.option("--goal", type=float, help="The value of the metric that ends it."),
        click.option("--gpu-hours", type=float, help="GPU-hours that its trials may take."),
        click.option("--failed-max", type=int, help="More failed trials end it."),
        click.option("--parallel", type=int, help="Trials at the same time."),
        click.option("--trials-max", type=int, help="Trials in all."),
    ):
        command = option(command)
    return command


def _said(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@experiment.command("edit")
@click.argument("name")
@_how_long
@with_session
def experiment_edit(s: Session, name: str, **values: Any) -> None:
    """Change how long a search goes on."""
    made = s.client.call("PATCH", _address(s, name), json_body=_said(values))
    emit([made] if s.fmt == "table" else made, fmt=s.fmt, columns=_LIST)


@experiment.command("restart")
@click.argument("name")
@_how_long
@with_session
def experiment_restart(s: Session, name: str, **values: Any) -> None:
    """Let a search that is over go on from its trials (say --trials-max)."""
    made = s.client.call("POST", _address(s, name) + "/restart", json_body=_said(values))
    emit([made] if s.fmt == "table" else made, fmt=s.fmt, columns=_LIST)


@experiment.command("delete")
@click.argument("name")
@click.option("--reason", default="", help="Why; needed where it is somebody else's.")
@with_session
def experiment_delete(s: Session, name: str, reason: str) -> None:
    """Delete a search that is over, with the jobs of its trials."""
    s.client.call("DELETE", _address(s, name), params=given(reason))
    click.echo(f"{name} is deleted.")


@experiment.command("list")
@with_session
def experiment_list(s: Session) -> None:
    """List the searches of the project, newest first."""
    emit(list(s.client.pages(f"projects/{s.project}/experiments")), fmt=s.fmt, columns=_LIST)


@experiment.command("show")
@click.argument("name")
@with_session
def experiment_show(s: Session, name: str) -> None:
    """Show a search: its trials, and what each came to."""
    found = s.client.call("GET", _address(s, name))
    if s.fmt != "table":
        emit(found, fmt=s.fmt)
        return
    emit([found], fmt=s.fmt, columns=_LIST)
    if found["message"]:
        click.echo(found["message"])
    if found["best"]:
        click.echo(f"best: trial {found['best']['number']}, {found['best']['value']:g}")
    emit(found["trials"], fmt=s.fmt, columns=_TRIALS)


@experiment.command("stop")
@click.argument("name")
@click.option("--trial", type=int, help="Only this trial; the search goes on.")
@click.option("--reason", default="", help="Why; needed where it is somebody else's.")
@with_session
def experiment_stop(s: Session, name: str, trial: int | None, reason: str) -> None:
    """Stop a search with its trials, or one trial."""
    one = f"/trials/{trial}/stop" if trial is not None else "/stop"
    made = s.client.call("POST", _address(s, name) + one, json_body={"reason": reason})
    emit([made] if s.fmt == "table" else made, fmt=s.fmt, columns=_LIST)


@experiment.command("promote")
@click.argument("name")
@click.option("--name", "job", default="", help="The name of the job.")
@with_session
def experiment_promote(s: Session, name: str, job: str) -> None:
    """Run a job with the values of the best trial."""
    said = {"name": job} if job else {}
    made = s.client.call("POST", _address(s, name) + "/promote", json_body=said)
    columns: Any = (("NAME", lambda r: r["name"]), ("ID", lambda r: r["id"]))
    emit([made] if s.fmt == "table" else made, fmt=s.fmt, columns=columns)


@experiment.command("tensorboard")
@click.argument("name")
@click.option("--print", "only_print", is_flag=True, help="Print the address, open nothing.")
@click.option("--timeout", type=float, default=300.0, show_default=True, help="Seconds to wait.")
@with_session
def experiment_tensorboard(s: Session, name: str, *, only_print: bool, timeout: float) -> None:
    """Open TensorBoard on what the trials write, the 20 best beside each other.

    It is a workspace of yours that stops when nobody looks: berth workspace stop, delete.
    """
    from berth_cli.jobs import open_tensorboard

    open_tensorboard(s, _address(s, name), {}, only_print=only_print, timeout=timeout)


def _address(s: Session, name: str) -> str:
    """Return where a search is, by its name or its id."""
    for one in s.client.pages(f"projects/{s.project}/experiments"):
        if name in {one["name"], one["id"]}:
            return f"projects/{s.project}/experiments/{one['id']}"
    raise ApiError(f"There is no search “{name}” in this project.", EXIT_NOT_FOUND)
