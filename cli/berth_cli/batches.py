"""Batch predictions: every instance of some files, by a version of a model, as a job."""

from __future__ import annotations

import time
from functools import partial
from typing import Any
from urllib.parse import urlencode

import click

from berth_cli import completing
from berth_cli.client import EXIT_NOT_FOUND, ApiError
from berth_cli.context import Session, with_session
from berth_cli.documents import Kind, Waiting, register, timeout_option
from berth_cli.following import EVERY_S, Told, patiently
from berth_cli.jobs import JOB
from berth_cli.naming import without_none
from berth_cli.output import age, printable
from berth_cli.work import DAY_S

_LAST_WORD_S = 15.0  # what it told last is read a bit after its end
_COLUMNS: Any = (
    ("NAME", lambda r: r["name"]),
    ("JOB", lambda r: r["job"]),
    ("STATE", lambda r: r["state"]),
    ("DONE", lambda r: f"{r['progress']:.0%}"),
    ("LEFT", lambda r: None if r["seconds_left"] is None else _left(r["seconds_left"])),
    ("INSTANCES", lambda r: r["done"]),
    ("FAILED", lambda r: r["failed"]),
    ("AGE", lambda r: age(r["created_at"])),
    ("ASKED", lambda r: r["model"] or r["endpoint"]),
    ("OUTPUT", lambda r: r["output"]),
)


def _left(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


@click.command("predict-batch")
@click.option("--model", help="MODEL or MODEL/VERSION.", shell_complete=completing.models)
@click.option("--endpoint", help="A live endpoint that is asked instead of a server of its own.")
@click.option(
    "--input",
    "source",
    required=True,
    metavar="PLACE",
    help="volume:NAME/FOLDER, gs://… or s3://…: .jsonl, .csv and .parquet.",
)
@click.option(
    "--output-to",
    "target",
    required=True,
    metavar="PLACE",
    help="volume:NAME/FOLDER, gs://… or s3://…; each run has a folder there.",
)
@click.option("--credential", help="That opens the bucket of the input.")
@click.option("--output-credential", help="That opens the bucket of the output.")
@click.option("--format", type=click.Choice(["jsonl", "parquet"]), help="Of the predictions.")
@click.option(
    "--encoding",
    type=click.Choice(["utf-8", "cp932", "euc_jp"]),
    help="Of CSV; cp932 is Shift-JIS as Excel writes it.",
)
@click.option("--batch", type=int, help="Instances in one request; 32 when not said.")
@click.option("--at-once", type=int, help="Requests at a time; 4 when not said.")
@click.option("--replicas", type=int, help="Each takes its share.")
@click.option("--cpu", type=float, help="Cores of a replica.")
@click.option("--memory", type=float, help="GiB of a replica.")
@click.option("--gpus", type=int, help="Of a replica.")
@click.option("--name", help="Of its job.")
@click.option("--image", help="On a cluster: another one with Python and the framework.")
@click.option("--cluster", help="Where it runs.")
@click.option("--without-instances", is_flag=True, help="Predictions alone, each with its line.")
@click.option(
    "--follow", is_flag=True, help="Tell how far it is to its end; end with its job's exit code."
)
@timeout_option(DAY_S)
@with_session
def predict_batch(
    s: Session,
    *,
    follow: bool,
    timeout: float,
    source: str,
    target: str,
    without_instances: bool,
    **said: Any,
) -> None:
    """Predict every instance of some files. It writes predictions-*.jsonl and errors.jsonl.

    It is a job: `berth job logs` and `berth job show` tell how it goes, and one that was killed
    goes on where it was. With --follow the command ends as the job does: 0 also where some
    instances were not predicted, 1 where none was.
    """
    body = {**said, "input": source, "output": target, "instances": not without_instances}
    cpu, memory = body.pop("cpu"), body.pop("memory")
    body["cpu_milli"] = None if cpu is None else round(cpu * 1000)
    body["memory_mib"] = None if memory is None else round(memory * 1024)
    made = s.client.post(f"projects/{s.project}/batch-predictions", without_none(body))
    _settle(s, made, Waiting(follow, timeout))


def _settle(s: Session, made: dict[str, Any], wanted: Waiting) -> None:
    """Print it; where that was asked, follow it to its end, and end as its job did."""
    if not wanted.wait:
        s.show([made] if s.fmt == "table" else made, _COLUMNS)
        return
    at = f"projects/{s.project}/batch-predictions/{made['id']}"
    job = partial(s.client.get, f"{JOB.base(s)}/{made['job']}")
    deadline = time.monotonic() + wanted.timeout
    ask = partial(patiently, partial(s.client.get, at), deadline=deadline)
    with JOB.going_on(job()), Told(in_place=True) as told:
        while made["state"] not in JOB.settled:
            told.tell(_line(made))
            if time.monotonic() > deadline:
                JOB.require_time(job(), deadline, wanted.timeout)
            time.sleep(EVERY_S)
            made = ask()
        until = time.monotonic() + _LAST_WORD_S
        while made["state"] == "succeeded" and made["progress"] < 1 and time.monotonic() < until:
            time.sleep(EVERY_S)
            made = ask()
        told.tell(_line(made))
    for one in made["failed_because"]:
        click.echo(
            printable(f"  {one['count']:,} times: {one['reason'] or 'other reasons'}"), err=True
        )
    s.show([made] if s.fmt == "table" else made, _COLUMNS)
    JOB.end(s, job(), ended=False)


def _line(row: dict[str, Any]) -> str:
    """Return how far it is, in one line."""
    if not row["done"]:
        return str(row["state"])
    parts = [f"{row['progress']:.0%}", f"{row['done']:,} instances"]
    parts += [f"{row['failed']:,} not predicted"] if row["failed"] else []
    parts += [f"{row['per_second']:,.0f} a second"] if row["per_second"] else []
    parts += [f"{_left(row['seconds_left'])} left"] if row["seconds_left"] is not None else []
    return f"{row['state']}: {', '.join(parts)}"


register("BatchPrediction", Kind("batch-predictions", _settle))


@click.command("predict-again")
@click.argument("name")
@click.option("--errors-only", is_flag=True, help="Only what could not be predicted.")
@with_session
def predict_again(s: Session, name: str, *, errors_only: bool) -> None:
    """Begin a batch prediction once more. It has the name of its job, or its id."""
    found = _found(s, name)
    path = f"projects/{s.project}/batch-predictions/{found['id']}/again"
    made = s.client.post(path, {"errors_only": errors_only})
    s.show([made] if s.fmt == "table" else made, _COLUMNS)


def _found(s: Session, name: str) -> dict[str, Any]:
    """Return the newest whose name, id or job's id this is."""
    for row in s.client.pages(f"projects/{s.project}/batch-predictions"):
        if name in {row["name"], row["id"], row["job"]}:
            return dict(row)
    raise ApiError(f"There is no batch prediction {name} here.", EXIT_NOT_FOUND)


@click.command("batches")
@click.option("--model", help="Of this model only.", shell_complete=completing.models)
@click.option("--endpoint", help="Of this endpoint only.")
@with_session
def batches(s: Session, model: str | None, endpoint: str | None) -> None:
    """List the batch predictions of the project, newest first."""
    said = without_none({"model": model, "endpoint": endpoint})
    asked = f"?{urlencode(said)}" if said else ""
    s.show(list(s.client.pages(f"projects/{s.project}/batch-predictions{asked}")), _COLUMNS)
