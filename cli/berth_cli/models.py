"""Models and their versions: register, look at, stage, delete."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import click

from berth_cli import completing
from berth_cli.batches import batches, predict_again, predict_batch
from berth_cli.client import EXIT_ERROR, EXIT_TIMEOUT, EXIT_USAGE, ApiError
from berth_cli.context import Session, with_session
from berth_cli.naming import given, why, without_none
from berth_cli.output import emit, moment, printable, refused, size

FRAMEWORKS = (
    *("sklearn", "xgboost", "lightgbm", "onnx", "tensorflow", "pytorch"),
    *("triton", "huggingface", "custom"),
)
STAGES = ("candidate", "serving", "retired")
_MODELS: Any = (
    ("NAME", lambda r: r["name"]),
    ("VERSIONS", lambda r: r["versions"]),
    ("NEWEST", lambda r: r["newest"] or "-"),
    ("BY", lambda r: r["created_by"] or "-"),
    ("CREATED", lambda r: moment(r["created_at"])),
    ("DESCRIPTION", lambda r: r["description"]),
)
VERSIONS: Any = (
    ("VERSION", lambda r: r["name"]),
    ("STAGE", lambda r: r["stage"]),
    ("FRAMEWORK", lambda r: r["framework"] or "-"),
    ("FILES", lambda r: r["files"]),
    ("SIZE", lambda r: None if r["size_bytes"] is None else size(r["size_bytes"])),
    ("METRICS", lambda r: " ".join(f"{k}={v:g}" for k, v in r["metrics"].items())),
    ("SERVED BY", lambda r: ", ".join(r["endpoints"]) or "-"),
    ("ORIGIN", lambda r: r["origin"]),
)
_REGISTERED: Any = (
    ("MODEL", lambda r: r["name"]),
    ("NEWEST", lambda r: r["newest"] or "-"),
    ("ALIASES", lambda r: " ".join(f"{k}={v}" for k, v in r["aliases"].items())),
    ("DESCRIPTION", lambda r: r["description"]),
)
_REGISTERED_VERSIONS: Any = (
    ("VERSION", lambda r: r["version"]),
    ("STATUS", lambda r: r["status"]),
    ("RUN", lambda r: r["run"] or "-"),
    ("DESCRIPTION", lambda r: r["description"]),
)


@click.group()
def model() -> None:
    """Models: what was trained, in versions that endpoints serve."""


model.add_command(predict_batch)
model.add_command(predict_again)
model.add_command(batches)


@model.command("list")
@with_session
def model_list(s: Session) -> None:
    """List the models of the project."""
    s.show(list(s.client.pages(_base(s))), _MODELS)


@model.command("create")
@click.argument("name")
@click.option("--description", default="", help="What it is good for.")
@with_session
def model_create(s: Session, name: str, description: str) -> None:
    """Register a model; its versions follow."""
    made = s.client.post(_base(s), {"name": name, "description": description})
    s.show([made] if s.fmt == "table" else made, _MODELS)


@model.command("describe")
@click.argument("name", shell_complete=completing.models)
@with_session
def model_describe(s: Session, name: str) -> None:
    """Show a model with its versions, the newest first."""
    found = {**s.client.get(f"{_base(s)}/{name}"), "versions": _versions(s, name)}
    if s.fmt != "table":
        s.show(found)
        return
    click.echo(printable(f"{name}  {found['description']}".rstrip()))
    emit(found["versions"], fmt=s.fmt, columns=VERSIONS)
    for row in found["versions"]:
        if row["message"]:
            click.echo(f"{row['name']}: {printable(row['message'])}", err=True)


@model.command("delete")
@click.argument("name", shell_complete=completing.models)
@why
@with_session
def model_delete(s: Session, name: str, reason: str) -> None:
    """Delete a model with its versions; their files stay."""
    s.client.call("DELETE", f"{_base(s)}/{name}", params=given(reason))
    click.echo(f"{name} is deleted.")


@model.command("mlflow")
@click.argument("server")
@click.argument("name", metavar="[MODEL]", default="")
@click.option("--search", "words", default="", help="Only models with this in their names.")
@with_session
def model_mlflow(s: Session, server: str, name: str, words: str) -> None:
    """List what an MLflow server has. Its models, or the versions of MODEL.

    SERVER is a credential of kind mlflow. Register one by: berth model import SERVER/MODEL/VERSION
    """
    path = f"projects/{s.project}/mlflow/{'versions' if name else 'models'}"
    rows, token = [], ""
    while True:
        params = without_none({"server": server, "model": name, "q": words, "token": token})
        said = s.client.get(path, **params)
        rows += said["versions" if name else "models"]
        token = said["token"]
        if not token:
            break
    s.show(rows, _REGISTERED_VERSIONS if name else _REGISTERED)


@model.command("import")
@click.argument("what", metavar="SERVER/MODEL/VERSION")
@click.option("--model", "name", default="", help="What it is called here; as there when not said.")
@click.option("--version", "version_name", default="", help="Its name; v and its number else.")
@click.option("--framework", type=click.Choice(FRAMEWORKS), help="As MLflow says it else.")
@click.option("--credential", help="That opens its bucket, where MLflow does not hand files on.")
@click.option("--no-wait", is_flag=True, help="Do not wait until its files are there.")
@with_session
def model_import(
    s: Session,
    what: str,
    *,
    name: str,
    version_name: str,
    framework: str | None,
    credential: str | None,
    no_wait: bool,
) -> None:
    """Register a version of an MLflow registry. … import team-mlflow/iris/3 (or latest, @ALIAS)"""
    if what.count("/") < 2:  # noqa: PLR2004 - server, model, version
        raise ApiError("Write it like SERVER/MODEL/VERSION.", EXIT_USAGE)
    name = name or re.sub(r"[^a-z0-9]+", "-", what.split("/")[-2].lower()).strip("-")[:50]
    said = without_none({"framework": framework, "credential": credential, "name": version_name})
    said["origin"] = f"mlflow:{what}"
    path, is_new = f"{_base(s)}/{name}/versions", not _is_there(s, name)
    if is_new:
        s.client.post(_base(s), {"name": name})
    try:
        made = s.client.post(path, said)
    except ApiError:
        if is_new:
            s.client.call("DELETE", f"{_base(s)}/{name}")
        raise
    if not no_wait:
        made = wait_for_files(s, made)
    s.show([made] if s.fmt == "table" else made, VERSIONS)


@model.group()
def version() -> None:
    """Versions of a model: add, list, check, read, stage, delete."""


@version.command("list")
@click.argument("name", shell_complete=completing.models)
@with_session
def version_list(s: Session, name: str) -> None:
    """List the versions of a model, the newest first."""
    s.show(_versions(s, name), VERSIONS)


@version.command("add")
@click.argument("name", shell_complete=completing.models)
@click.option("--version", "version_name", default="", help="Its name; v1, v2 … when not said.")
@click.option(
    "--from",
    "origin",
    metavar="ORIGIN",
    help="volume:NAME/FOLDER, run:JOB/NUMBER/FOLDER (latest for the newest run), gs://…, s3://… "
    "or mlflow:SERVER/MODEL/VERSION.",
)
@click.option(
    "--from-dir",
    type=click.Path(exists=True, path_type=Path),
    help="A folder (or file) of this machine, which is sent; run again to go on.",
)
@click.option("--framework", type=click.Choice(FRAMEWORKS), help="Found by the files' names else.")
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME=NUMBER", help="Of its evaluation."
)
@click.option(
    "--signature", type=click.Path(exists=True, dir_okay=False), help="JSON: inputs and outputs."
)
@click.option("--credential", help="That opens the bucket; a public one needs none.")
@click.option("--cluster", help="Where its files are kept.")
@click.option("--no-read", is_flag=True, help="Have no job read the files by itself.")
@click.option("--no-wait", is_flag=True, help="Do not wait until its files are there.")
@with_session
def version_add(  # noqa: PLR0913 - one for each option
    s: Session,
    name: str,
    *,
    version_name: str,
    origin: str | None,
    from_dir: Path | None,
    framework: str | None,
    metrics: tuple[str, ...],
    signature: str | None,
    credential: str | None,
    cluster: str | None,
    no_read: bool,
    no_wait: bool,
) -> None:
    """Add a version. … version add mnist --from run:train/latest/model --metric accuracy=0.98"""
    if (origin is None) == (from_dir is None) and framework != "custom":
        raise ApiError("Say where its files are: --from or --from-dir.", EXIT_USAGE)
    if from_dir is not None:
        origin = f"upload:{from_dir.absolute().name}"
    said = without_none(
        {
            "name": version_name,
            "origin": origin,
            "framework": framework,
            "credential": credential,
            "cluster": cluster,
            "read": False if no_read else None,
        }
    )
    said["metrics"] = dict(_number(one) for one in metrics)
    if signature:
        said["signature"] = json.loads(Path(signature).read_text())
    path = f"{_base(s)}/{name}/versions"
    made = _begun(s, path, said) if from_dir else s.client.post(path, said)
    if from_dir is not None and made["files"] != "there":
        send_files(s, made, from_dir)
        made = s.client.post(f"{path}/{made['name']}/check", {})
    if not no_wait:
        made = wait_for_files(s, made)
    s.show([made] if s.fmt == "table" else made, VERSIONS)


@version.command("stage")
@click.argument("name", shell_complete=completing.models)
@click.argument("version_name", metavar="VERSION")
@click.argument("stage", type=click.Choice(STAGES))
@with_session
def version_stage(s: Session, name: str, version_name: str, stage: str) -> None:
    """Say what a version is good for."""
    path = f"{_base(s)}/{name}/versions/{version_name}"
    made = s.client.call("PATCH", path, json_body={"stage": stage})
    s.show([made] if s.fmt == "table" else made, VERSIONS)


@version.command("check")
@click.argument("name", shell_complete=completing.models)
@click.argument("version_name", metavar="VERSION")
@click.option("--credential", help="Another one than before that opens the bucket.")
@with_session
def version_check(s: Session, name: str, version_name: str, credential: str | None) -> None:
    """Look at the files of a version again, or copy them once more."""
    path = f"{_base(s)}/{name}/versions/{version_name}/check"
    made = s.client.post(path, without_none({"credential": credential}))
    made = wait_for_files(s, made)
    s.show([made] if s.fmt == "table" else made, VERSIONS)


@version.command("read")
@click.argument("name", shell_complete=completing.models)
@click.argument("version_name", metavar="VERSION")
@with_session
def version_read(s: Session, name: str, version_name: str) -> None:
    """Read the files in a job of the project. It tells their digest, what goes in and comes out."""
    path = f"{_base(s)}/{name}/versions/{version_name}"
    row, until = s.client.post(f"{path}/read"), monotonic() + 3600
    while row["read"] == "running":
        if monotonic() > until:
            raise ApiError("It is not read yet; it goes on by itself.", EXIT_TIMEOUT)
        sleep(1)
        row = s.client.get(path)
    if s.fmt != "table":
        s.show(row)
        return
    click.echo(row["digest"])
    for side in ("inputs", "outputs"):
        for one in row["signature"].get(side, ()):
            click.echo(printable(f"{side[:-1]} {one['name']} {one['datatype']} {one['shape']}"))
    if row["message"] or row["read"] == "failed":
        said = row["read_message"] or row["message"] or "It ended before it told anything."
        raise ApiError(f"{name}/{version_name}: {printable(said)}", EXIT_ERROR)


@version.command("delete")
@click.argument("name", shell_complete=completing.models)
@click.argument("version_name", metavar="VERSION")
@why
@with_session
def version_delete(s: Session, name: str, version_name: str, reason: str) -> None:
    """Delete a version; its files stay where they are."""
    path = f"{_base(s)}/{name}/versions/{version_name}"
    s.client.call("DELETE", path, params=given(reason))
    click.echo(f"{name}/{version_name} is deleted.")


def wait_for_files(s: Session, row: dict[str, Any], within_s: float = 3600) -> dict[str, Any]:
    """Return it once its files are there; say what is wrong where they are not to come."""
    until, said = monotonic() + within_s, False
    while row["files"] == "coming":
        if not said:
            click.echo(f"{row['model']}/{row['name']}: its files are looked at …", err=True)
            said = True
        if monotonic() > until:
            raise ApiError("Its files are not there yet; it goes on by itself.", EXIT_TIMEOUT)
        sleep(1)
        row = s.client.get(f"{_base(s)}/{row['model']}/versions/{row['name']}")
    if row["files"] == "failed":
        raise ApiError(f"{row['model']}/{row['name']}: {row['message']}", EXIT_ERROR)
    if row["message"]:
        click.echo(printable(row["message"]), err=True)
    return row


def _begun(s: Session, path: str, said: dict[str, Any]) -> dict[str, Any]:
    """Return the version that an upload of the same folder began before, else a new one."""
    for row in s.client.pages(path):
        same = row["origin"] == said["origin"] and said["name"] in {"", row["name"]}
        if same and row["source"] == "upload" and row["files"] == "coming":
            click.echo(f"Going on with {row['name']}.", err=True)
            return dict(row)
    return dict(s.client.post(path, said))


def send_files(s: Session, row: dict[str, Any], source: Path) -> None:
    """Send a folder, or a file, to where the version has its files."""
    from berth_cli.carrying import Place, send  # only who sends needs them
    from berth_cli.files import files_to_send

    unread: list[OSError] = []
    there = Place(s, row["volume_id"])
    there.open()
    there.json("POST", "mkdir", json={"path": row["folder"], "parents": True})
    for path, to in files_to_send([source], row["folder"], unread):
        if path.is_dir():
            there.json("POST", "mkdir", json={"path": to, "parents": True})
        else:
            send(there, path, to, "replace")
    for one in unread:
        raise ApiError(refused(one), EXIT_ERROR)


def _number(text: str) -> tuple[str, float]:
    name, _equals, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise ApiError(f"--metric {text}: it is NAME=NUMBER.", EXIT_USAGE) from None


def _is_there(s: Session, name: str) -> bool:
    try:
        s.client.get(f"{_base(s)}/{name}")
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


def _versions(s: Session, name: str) -> list[dict[str, Any]]:
    return list(s.client.pages(f"{_base(s)}/{name}/versions"))


def _base(s: Session) -> str:
    return f"projects/{s.project}/models"
