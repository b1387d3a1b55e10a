"""Training jobs by the commands of AI Platform Training: ``berth ai-platform jobs …``.

Those of Prediction (models, versions, predict) are in ``prediction``.

What their file means is known by the portal (``--plan``); ``kubectl ai-platform`` is the same.
"""

from __future__ import annotations

from functools import reduce
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any

import click

from berth_cli import completing
from berth_cli.client import EXIT_CONFLICT, EXIT_USAGE, ApiError
from berth_cli.context import Session, with_session
from berth_cli.documents import Waiting, emit_plan, plan_option
from berth_cli.fields import field_body, field_options, fields_of
from berth_cli.jobs import JOB
from berth_cli.lazy import LazyGroup
from berth_cli.naming import given, why
from berth_cli.output import emit, moment, printable
from berth_cli.packages import package_sent
from berth_cli.work import DAY_S, Row

MAX_BYTES = 256 * 1024  # of a file; the portal takes no more
# Options of a job that the file has no words for.
_BESIDE = ("environment", "cluster", "pool", "env", "volumes", "credentials", "needs")
_JOBS: Any = (
    ("JOB_ID", lambda r: r["jobId"]),
    ("STATUS", lambda r: r["state"]),
    ("CREATED", lambda r: moment(r["createTime"])),
)
_LINES: Any = (
    ("FIELD", lambda r: r["field"]),
    ("VALUE", lambda r: r["value"]),
    ("BECOMES", lambda r: "REFUSED" if r["refused"] else r["becomes"]),
    ("WHY", lambda r: r["why"]),
)
# Option → field of trainingInput; what is said here comes before the file.
_TEXTS = {
    "scale-tier": "scaleTier",
    "master-machine-type": "masterType",
    "worker-machine-type": "workerType",
    "parameter-server-machine-type": "parameterServerType",
    "worker-count": "workerCount",
    "parameter-server-count": "parameterServerCount",
    "master-image-uri": "masterConfig.imageUri",
    "worker-image-uri": "workerConfig.imageUri",
    "parameter-server-image-uri": "parameterServerConfig.imageUri",
    "module-name": "pythonModule",
    "region": "region",
    "job-dir": "jobDir",
    "runtime-version": "runtimeVersion",
    "python-version": "pythonVersion",
    "network": "network",
    "service-account": "serviceAccount",
    "max-running-time": "scheduling.maxRunningTime",
}
_ACCELERATORS = {
    "master-accelerator": "masterConfig.acceleratorConfig",
    "worker-accelerator": "workerConfig.acceleratorConfig",
    "parameter-server-accelerator": "parameterServerConfig.acceleratorConfig",
}


class Pairs(click.ParamType):
    """NAME=VALUE,NAME=VALUE"""

    name = "pairs"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, dict):
            return value
        found = dict(part.strip().partition("=")[::2] for part in str(value).split(","))
        if not all(found) or not all("=" in part for part in str(value).split(",")):
            self.fail(f"{value!r} is not NAME=VALUE,NAME=VALUE", param, ctx)
        return found


@click.group(
    "ai-platform",
    cls=LazyGroup,
    elsewhere={name: f"prediction:{name}" for name in ("models", "versions", "predict")},
)
def ai_platform() -> None:
    """Commands in the shape of AI Platform: what was typed and written for it runs here."""


@ai_platform.group()
def jobs() -> None:
    """Training jobs: submit, describe, list, stream-logs, cancel."""


@jobs.group()
def submit() -> None:
    """Submit a job."""


def format_option(command: Any) -> Any:
    def put(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
        if value is not None:
            found: Any = ctx.find_object(Session)
            found.fmt = value

    return click.option(
        "--format",
        type=click.Choice(["json", "yaml"]),
        callback=put,
        expose_value=False,
        help="How to print, as -o.",
    )(command)


def _described(command: Any) -> Any:
    """Add the options that stand for fields of the file."""
    options = [
        click.option(f"--{name}", metavar="TEXT", help=f"{path} of its trainingInput.")
        for name, path in _TEXTS.items()
    ]
    options += [
        click.option(
            f"--{name}",
            type=Pairs(),
            metavar="count=N,type=TYPE",
            help=f"{path} of it.",
        )
        for name, path in _ACCELERATORS.items()
    ]
    return reduce(lambda found, option: option(found), reversed(options), command)


@submit.command("training")
@click.argument("name")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--config", type=click.Path(), help="Its file, with trainingInput; - is stdin.")
@click.option(
    "--package-path",
    type=click.Path(file_okay=False),
    help="Folder of the Python package that --module-name is in; it is sent to the portal.",
)
@_described
@click.option("--staging-bucket", hidden=True, help="Not needed: the portal keeps the package.")
@click.option("--labels", type=Pairs(), metavar="NAME=VALUE,…", help="Kept with it.")
@click.option(
    "--use-chief-in-tf-config/--no-use-chief-in-tf-config",
    "chief",
    default=None,
    help="useChiefInTfConfig of it.",
)
@click.option("--stream-logs", is_flag=True, help="Print its log until it has ended.")
@click.option("--async", "_async", is_flag=True, hidden=True, help="As it is without.")
@field_options("job", but=[f["name"] for f in fields_of("job") if f["name"] not in _BESIDE])
@plan_option
@format_option
@with_session
def training(  # noqa: PLR0913 - one for each option
    s: Session,
    *,
    name: str,
    args: tuple[str, ...],
    config: str | None,
    package_path: str | None,
    labels: dict[str, str] | None,
    chief: bool | None,
    stream_logs: bool,
    plan: bool,
    **said: Any,
) -> None:
    """Submit a training job: … training NAME --config config.yaml --package-path ./trainer

    What follows -- goes to its program. An option comes before the same field of the file.
    """
    asked: Row = {"jobId": name}
    if config:
        asked["config"] = _text(config)
    options = {**_TEXTS, **_ACCELERATORS}.items()
    above = _nested({path: said[option.replace("-", "_")] for option, path in options})
    above |= {"args": list(args)} if args else {}
    above |= {} if chief is None else {"useChiefInTfConfig": chief}
    asked |= {"trainingInput": above} if above else {}
    asked |= {"labels": labels} if labels else {}
    if beside := field_body("job", {n: said.get(n) for n in (*_BESIDE, "no_volumes")}):
        asked["job"] = beside
    if package_path:
        asked["package"] = package_sent(s, Path(package_path), plan=plan) or "planned"
    path = f"projects/{s.project}/ai-platform/jobs"
    if plan:
        show_plan(s, s.client.post(path, asked, plan=1))
        return
    row = s.client.post(path, asked)
    click.echo(
        f"{name} is submitted. How it goes: berth ai-platform jobs describe {name}", err=True
    )
    show(s, {key: row[key] for key in ("jobId", "state")} if s.fmt == "table" else row)
    if stream_logs:
        _stream(s, name)


@jobs.command()
@click.argument("name", shell_complete=completing.jobs)
@format_option
@with_session
def describe(s: Session, name: str) -> None:
    """Tell one job: its state, its times and its trainingInput."""
    show(s, s.client.get(f"projects/{s.project}/ai-platform/jobs/{name}"))


@jobs.command("list")
@click.option("--limit", type=click.IntRange(1), help="At most so many, the newest.")
@format_option
@with_session
def list_jobs(s: Session, *, limit: int | None) -> None:
    """List the training jobs of the project that were submitted so, the newest first."""
    path = f"projects/{s.project}/ai-platform/jobs"
    both = (s.client.pages(path), s.client.pages(f"{path}?searches=1"))
    newest_first = merge(*both, key=lambda row: row["createTime"], reverse=True)
    s.show(list(islice(newest_first, limit)), _JOBS)


@jobs.command("stream-logs")
@click.argument("name", shell_complete=completing.jobs)
@with_session
def stream_logs(s: Session, name: str) -> None:
    """Print the log of its master until it has ended; end as its program did."""
    if "trainingOutput" in s.client.get(f"projects/{s.project}/ai-platform/jobs/{name}"):
        message = f"{name} is a search: each trial has its own log (berth job logs NAME-…-NUMBER)."
        raise ApiError(message, EXIT_CONFLICT)
    _stream(s, name)


@jobs.command()
@click.argument("name", shell_complete=completing.jobs)
@why
@with_session
def cancel(s: Session, name: str, *, reason: str) -> None:
    """End a job; what it wrote to volumes and buckets stays."""
    path = f"projects/{s.project}/ai-platform/jobs/{name}"
    if "trainingOutput" in s.client.get(path):  # a search, with its trials
        s.client.post(f"{path}/cancel", given(reason))
        click.echo(f"{name} is being cancelled.", err=True)
        return
    row = JOB.find(s, name)
    if JOB.is_settled(row):
        message = f"{name}: {JOB.state(row)} already."
        raise ApiError(message, EXIT_CONFLICT)
    s.client.post(f"{JOB.path(s, row)}/cancel", given(reason))
    click.echo(f"{name} is being cancelled.", err=True)


def _stream(s: Session, name: str) -> None:
    fmt, s.fmt = s.fmt, "table"  # a log is a log
    JOB.print_log(s, JOB.find(s, name), Waiting(wait=True, timeout=30 * DAY_S))
    s.fmt = fmt


def show(s: Session, row: Row) -> None:
    """Print one as YAML, unless JSON was asked for."""
    emit(row, fmt="json" if s.fmt == "json" else "yaml")


def show_plan(s: Session, answer: Row) -> None:
    if s.fmt != "table":
        s.show(answer)
    else:
        emit(answer["fields"], fmt="table", columns=_LINES)
        if answer.get("plan"):
            click.echo()
            emit_plan(s, answer["plan"])
    if not answer["allowed"]:
        raise ApiError(printable(answer["refusal"]), EXIT_CONFLICT)


def _text(file: str) -> str:
    """Return what a file says, or say why it can't be what a job is made of."""
    try:
        with click.open_file(file, "rb") as opened:
            data = opened.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            message = f"{file} is larger than {MAX_BYTES // 1024} KiB, which no such file is."
            raise ApiError(message, EXIT_USAGE)
        return str(data.decode())
    except UnicodeDecodeError as error:
        raise ApiError(f"{file} is not text in UTF-8.", EXIT_USAGE) from error
    except OSError as error:
        raise ApiError(f"{file} can't be read: {error.strerror}", EXIT_USAGE) from error


def _nested(said: dict[str, Any]) -> Row:
    """Return nested mappings of dotted paths; what was not said is left out."""
    found: Row = {}
    for path, value in said.items():
        if value is None:
            continue
        *parents, last = path.split(".")
        below = found
        for name in parents:
            below = below.setdefault(name, {})
        below[last] = {**below.get(last, {}), **value} if isinstance(value, dict) else value
    return found
