"""Performance tests: begin one, look at results, choose a baseline."""

from __future__ import annotations

import time
from typing import Any

import click

from berth_cli.client import EXIT_ERROR, EXIT_NOT_FOUND, EXIT_USAGE, ApiError
from berth_cli.context import Session, with_session
from berth_cli.output import emit

TESTS = ("all-reduce", "all-gather", "reduce-scatter", "scaling")


def _headline(row: dict[str, Any]) -> str:
    if row["headline"] is None:
        return "-"
    return f"{row['headline']:.0%}" if row["test"] == "scaling" else f"{row['headline']:.3g} GB/s"


def _where(row: dict[str, Any]) -> str:
    return " ".join(filter(None, (row["cluster"], row["gpu_flavor"], ",".join(row["nodes"]))))


_LIST: Any = (
    ("NAME", lambda r: r["name"]),
    ("TEST", lambda r: r["test"]),
    ("STATE", lambda r: r["state"]),
    ("REPLICAS", lambda r: f"{r['replicas']}x{r['gpus']}" if r["gpus"] else r["replicas"]),
    ("WHERE", lambda r: _where(r) or "-"),
    ("BUSBW", _headline),
    ("BASELINE", lambda r: "yes" if r["is_baseline"] else "-"),
    ("ID", lambda r: r["id"]),
)
_SIZES: Any = (
    ("SIZE", lambda r: r["size"]),
    ("TIME_US", lambda r: f"{r['time_us']:.1f}"),
    ("ALGBW", lambda r: f"{r['algbw']:.4g}"),
    ("BUSBW", lambda r: f"{r['busbw']:.4g}"),
)
_STEPS: Any = (
    ("REPLICAS", lambda r: f"{r['replicas']:g}"),
    ("STEP_MS", lambda r: f"{r['step_ms']:.2f}"),
    ("STEPS/S", lambda r: f"{r['steps_per_s']:.2f}"),
)


@click.group()
def perftest() -> None:
    """Performance tests: what comes through between replicas, and how a step scales."""


@perftest.command("run")
@click.argument("test", type=click.Choice(TESTS))
@click.option("--replicas", type=int, default=2, show_default=True, help="Of one job.")
@click.option("--gpus", type=int, default=0, show_default=True, help="Of each replica.")
@click.option("--image", help="On a cluster: one with Python, and PyTorch for GPUs.")
@click.option("--environment", help="On one machine.")
@click.option("--cluster", help="Where it runs.")
@click.option("--max-mib", type=int, help="The largest size.")
@click.option("-e", "--env", "variables", multiple=True, help="NCCL_…=VALUE; as often as needed.")
@click.option("--wait", is_flag=True, help="Until it has ended; then show the result.")
@with_session
def perftest_run(s: Session, *, variables: tuple[str, ...], wait: bool, **said: Any) -> None:
    """Begin a test."""
    body = {name: value for name, value in said.items() if value is not None}
    if bad := next((one for one in variables if "=" not in one), None):
        raise ApiError(f"{bad}: NAME=VALUE, please.", EXIT_USAGE)
    if variables:
        body["variables"] = dict(one.split("=", 1) for one in variables)
    made = s.client.call("POST", f"projects/{s.project}/perftests", json_body=body)
    while wait and made["state"] == "running":
        time.sleep(2)
        made = s.client.call("GET", f"projects/{s.project}/perftests/{made['id']}")
    _show(s, made)
    if wait and made["state"] != "succeeded":
        raise ApiError(made["message"] or f"It is {made['state']}.", EXIT_ERROR)


@perftest.command("list")
@with_session
def perftest_list(s: Session) -> None:
    """List the results of the project, newest first."""
    emit(list(s.client.pages(f"projects/{s.project}/perftests")), fmt=s.fmt, columns=_LIST)


@perftest.command("show")
@click.argument("name")
@with_session
def perftest_show(s: Session, name: str) -> None:
    """Show a result, line by line, and how it stands beside its baseline."""
    _show(s, s.client.call("GET", _address(s, name)))


@perftest.command("baseline")
@click.argument("name")
@with_session
def perftest_baseline(s: Session, name: str) -> None:
    """Compare tests of the same shape with this one from now on."""
    _show(s, s.client.call("POST", f"{_address(s, name)}/baseline"))


@perftest.command("delete")
@click.argument("name")
@with_session
def perftest_delete(s: Session, name: str) -> None:
    """Remove a result; its job stays."""
    s.client.call("DELETE", _address(s, name))


def _show(s: Session, found: dict[str, Any]) -> None:
    if s.fmt != "table":
        emit(found, fmt=s.fmt)
        return
    emit([found], fmt=s.fmt, columns=_LIST)
    if found["lines"]:
        columns = _STEPS if found["test"] == "scaling" else _SIZES
        emit(found["lines"], fmt=s.fmt, columns=columns)
    if beside := found["beside_baseline"]:
        click.echo(beside["sentence"])


def _address(s: Session, name: str) -> str:
    """Return where a test is, by its name or its id."""
    for one in s.client.pages(f"projects/{s.project}/perftests"):
        if name in {one["name"], one["id"]}:
            return f"projects/{s.project}/perftests/{one['id']}"
    raise ApiError(f"There is no test “{name}” in this project.", EXIT_NOT_FOUND)
