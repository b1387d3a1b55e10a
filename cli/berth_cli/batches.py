"""Batch predictions: every instance of some files, by a version of a model, as a job."""

from __future__ import annotations

from typing import Any

import click

from berth_cli import completing
from berth_cli.context import Session, with_session
from berth_cli.naming import without_none
from berth_cli.output import age

_COLUMNS: Any = (
    ("NAME", lambda r: r["name"]),
    ("JOB", lambda r: r["job"]),
    ("STATE", lambda r: r["state"]),
    ("DONE", lambda r: f"{r['progress']:.0%}"),
    ("INSTANCES", lambda r: r["done"]),
    ("FAILED", lambda r: r["failed"]),
    ("AGE", lambda r: age(r["created_at"])),
    ("MODEL", lambda r: r["model"]),
    ("OUTPUT", lambda r: r["output"]),
)


@click.command("predict-batch")
@click.option(
    "--model", required=True, help="MODEL or MODEL/VERSION.", shell_complete=completing.models
)
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
@with_session
def predict_batch(
    s: Session,
    *,
    source: str,
    target: str,
    cpu: float | None,
    memory: float | None,
    without_instances: bool,
    **said: Any,
) -> None:
    """Predict every instance of some files: predictions-*.jsonl and errors.jsonl beside them.

    It is a job: `berth job logs` and `berth job show` tell how it goes, and one that was killed
    goes on where it was.
    """
    body = {**said, "input": source, "output": target, "instances": not without_instances}
    body["cpu_milli"] = None if cpu is None else round(cpu * 1000)
    body["memory_mib"] = None if memory is None else round(memory * 1024)
    made = s.client.post(f"projects/{s.project}/batch-predictions", without_none(body))
    s.show([made] if s.fmt == "table" else made, _COLUMNS)


@click.command("batches")
@click.option("--model", help="Of this model only.", shell_complete=completing.models)
@with_session
def batches(s: Session, model: str | None) -> None:
    """List the batch predictions of the project, newest first."""
    asked = f"?model={model}" if model else ""
    s.show(list(s.client.pages(f"projects/{s.project}/batch-predictions{asked}")), _COLUMNS)
