"""Models, versions and predictions by the commands of AI Platform Prediction.

``berth ai-platform models|versions|predict``; what the fields mean is known by the portal
(``--plan``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import httpx

from berth_cli import completing
from berth_cli.ai_platform import Pairs, format_option, show, show_plan
from berth_cli.client import (
    EXIT_CONFLICT,
    EXIT_ERROR,
    EXIT_NOT_FOUND,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    ApiError,
    exit_of,
)
from berth_cli.context import Session, with_session
from berth_cli.documents import plan_option
from berth_cli.naming import given, why
from berth_cli.output import emit, printable
from berth_cli.work import Row

MAX_BYTES = 64 * 1024 * 1024  # of one request
PATIENCE_S = 300.0  # a model that sleeps is woken first
_MODELS: Any = (
    ("NAME", lambda r: r["name"]),
    ("DESCRIPTION", lambda r: r["description"]),
)
_VERSIONS: Any = (
    ("NAME", lambda r: r["name"].partition("/")[2]),
    ("DEPLOYMENT_URI", lambda r: r["deploymentUri"]),
    ("STATE", lambda r: r["state"]),
    ("DEFAULT", lambda r: "yes" if r["isDefault"] else ""),
)
_model_option = click.option(
    "--model", required=True, shell_complete=completing.models, help="Name of the model."
)


@click.group()
def models() -> None:
    """Models: create, list, describe, delete."""


@models.command("create")
@click.argument("name")
@click.option("--description", default="", help="What it is good for.")
@click.option("--regions", hidden=True, help="Not needed: a model is where its volume is.")
@click.option("--region", hidden=True, help="As --regions.")
@click.option("--enable-logging", is_flag=True, hidden=True, help="Logs are always kept.")
@format_option
@with_session
def models_create(s: Session, name: str, description: str, **_said: Any) -> None:
    """Create a model; its versions follow."""
    show(s, s.client.post(_base(s), {"name": name, "description": description}))


@models.command("list")
@format_option
@with_session
def models_list(s: Session) -> None:
    """List the models of the project."""
    s.show(list(s.client.pages(_base(s))), _MODELS)


@models.command("describe")
@click.argument("name", shell_complete=completing.models)
@format_option
@with_session
def models_describe(s: Session, name: str) -> None:
    """Tell one model, with its default version."""
    show(s, s.client.get(f"{_base(s)}/{name}"))


@models.command("delete")
@click.argument("name", shell_complete=completing.models)
@why
@with_session
def models_delete(s: Session, name: str, reason: str) -> None:
    """Delete a model with its versions; their files stay."""
    s.client.call("DELETE", f"{_base(s)}/{name}", params=given(reason))
    click.echo(f"{name} is deleted.", err=True)


@click.group()
def versions() -> None:
    """Versions: create, list, describe, delete, set-default."""


@versions.command("create")
@click.argument("name")
@_model_option
@click.option("--origin", help="gs://…, s3://…, volume:NAME/FOLDER, run:…, or a folder here.")
@click.option("--framework", help="tensorflow, scikit-learn, xgboost, or another that Berth has.")
@click.option("--runtime-version", help="Taken and not needed: the server here loads it.")
@click.option("--python-version", help="Taken and not needed.")
@click.option("--machine-type", help="Such as n1-standard-2.")
@click.option("--accelerator", type=Pairs(), metavar="count=N,type=TYPE", help="GPUs of each node.")
@click.option("--min-nodes", type=click.IntRange(0), help="Replicas at least; 0: it may sleep.")
@click.option("--max-nodes", type=click.IntRange(1), help="Replicas at most.")
@click.option("--description", help="Taken and not kept.")
@click.option("--credential", help="That opens the bucket; a public one needs none.")
@click.option("--staging-bucket", hidden=True, help="Not needed: the portal takes the files.")
@click.option("--region", hidden=True, help="Not needed.")
@click.option("--async", "_async", is_flag=True, hidden=True, help="As it is without.")
@plan_option
@format_option
@with_session
def versions_create(
    s: Session, name: str, *, model: str, origin: str | None, plan: bool, **said: Any
) -> None:
    """Create a version. … versions create v1 --model mnist --framework tensorflow --origin gs://…

    It is deployed as an endpoint that is called as its model, where there is none.
    """
    source = Path(origin) if origin and Path(origin).exists() else None
    asked: Row = {"name": name}
    fields = {
        "deploymentUri": f"upload:{source.absolute().name}" if source else origin,
        "framework": said["framework"],
        "runtimeVersion": said["runtime_version"],
        "pythonVersion": said["python_version"],
        "machineType": said["machine_type"],
        "acceleratorConfig": said["accelerator"],
        "description": said["description"],
        "credential": said["credential"],
    }
    asked |= {field: value for field, value in fields.items() if value is not None}
    nodes = {"minNodes": said["min_nodes"], "maxNodes": said["max_nodes"]}
    if scaling := {field: value for field, value in nodes.items() if value is not None}:
        asked["autoScaling"] = scaling
    path = f"{_base(s)}/{model}/versions"
    if plan:
        answer = s.client.post(path, asked, plan=1)
        show_plan(s, answer)
        return
    made = s.client.post(path, asked)
    if source is not None:
        _upload(s, model, name, source)
    if made.get("message"):
        click.echo(printable(made["message"]), err=True)
    show(s, made)


@versions.command("list")
@_model_option
@format_option
@with_session
def versions_list(s: Session, model: str) -> None:
    """List the versions of a model, the newest first."""
    s.show(list(s.client.pages(f"{_base(s)}/{model}/versions")), _VERSIONS)


@versions.command("describe")
@click.argument("name")
@_model_option
@format_option
@with_session
def versions_describe(s: Session, name: str, model: str) -> None:
    """Tell one version."""
    show(s, s.client.get(f"{_base(s)}/{model}/versions/{name}"))


@versions.command("delete")
@click.argument("name")
@_model_option
@why
@with_session
def versions_delete(s: Session, name: str, model: str, reason: str) -> None:
    """Delete a version that nothing serves; its files stay."""
    path = f"{_base(s)}/{model}/versions/{name}"
    s.client.call("DELETE", path, params=given(reason))
    click.echo(f"{model}/{name} is deleted.", err=True)


@versions.command("set-default")
@click.argument("name")
@_model_option
@format_option
@with_session
def versions_set_default(s: Session, name: str, model: str) -> None:
    """Make a version the one that is meant where none is named."""
    show(s, s.client.post(f"{_base(s)}/{model}/versions/{name}/set-default"))


@click.command()
@_model_option
@click.option("--version", "version", help="Its default where none is said.")
@click.option("--json-instances", type=click.Path(), help="A file with an instance on each line.")
@click.option("--text-instances", type=click.Path(), help="The same, each line a text.")
@click.option("--json-request", type=click.Path(), help="A file with the whole request.")
@click.option("--signature-name", help="Of a SavedModel.")
@click.option("--region", hidden=True, help="Not needed.")
@format_option
@with_session
def predict(
    s: Session, *, model: str, version: str | None, signature_name: str | None, **said: Any
) -> None:
    """Ask a version for predictions. … predict --model mnist --json-instances FILE"""
    files = {name: file for name, file in said.items() if file and name != "region"}
    if len(files) != 1:
        message = "Say one of --json-instances, --text-instances and --json-request."
        raise ApiError(message, EXIT_USAGE)
    from berth_cli.carrying import to_gate  # only who sends needs it

    ((kind, file),) = files.items()
    body = _request(kind, file)
    if signature_name:
        body["signature_name"] = signature_name
    found = _endpoint(s, model, version)
    url = f"{found['url'].rstrip('/')}/v1/models/{model}:predict"
    try:
        with to_gate(s, httpx.Timeout(PATIENCE_S, connect=10.0)) as http:
            answer = http.post(url, json=body)
    except httpx.TransportError as error:
        raise ApiError(f"{url} does not answer: {error}", EXIT_UNREACHABLE) from error
    if not answer.is_success:
        raise ApiError(f"{answer.status_code}: {_said(answer)}", exit_of(answer.status_code))
    try:
        told = answer.json()
    except ValueError as error:
        raise ApiError(f"{url} answered with no JSON.", EXIT_ERROR) from error
    emit(told, fmt="yaml" if s.fmt == "yaml" else "json")


def _endpoint(s: Session, model: str, version: str | None) -> Row:
    """Return the endpoint that serves it: of several the one that is called as the model."""
    path = f"{_base(s)}/{model}"
    if version is None:
        default = s.client.get(path).get("defaultVersion")
        if default is None:
            raise ApiError(f"{model} has no version yet.", EXIT_NOT_FOUND)
        version = str(default["name"]).partition("/")[2]
    s.client.get(f"{path}/versions/{version}")  # says it where there is none
    serving = [
        row
        for row in s.client.pages(f"projects/{s.project}/endpoints")
        if row["spec"]["model"] == f"{model}/{version}"
    ]
    serving.sort(key=lambda row: row["name"] != model)
    if not serving:
        do = f"berth endpoint create --model {model}/{version}"
        raise ApiError(f"{model}/{version} is served by no endpoint: {do}", EXIT_CONFLICT)
    if not serving[0].get("url"):
        raise ApiError("This portal has no gateway for requests to models.", EXIT_CONFLICT)
    return serving[0]


def _request(kind: str, file: str) -> Row:
    """Return what is sent: ``instances``, one of each line, or what the file says as a whole."""
    try:
        with click.open_file(file, "rb") as opened_file:
            data = opened_file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            message = f"{file} is larger than {MAX_BYTES // 2**20} MiB: predict it as a batch."
            raise ApiError(message, EXIT_USAGE)
        text = data.decode()
        if kind == "json_request":
            whole = json.loads(text)
            if not isinstance(whole, dict):
                raise ApiError(f"{file} is no JSON object.", EXIT_USAGE)
            return whole
        lines = [line for line in text.splitlines() if line.strip()]
        if kind == "text_instances":
            return {"instances": lines}
        return {"instances": [_json(line, number, file) for number, line in enumerate(lines, 1)]}
    except json.JSONDecodeError as error:
        raise ApiError(f"{file} is no JSON: {error}", EXIT_USAGE) from error
    except UnicodeDecodeError as error:
        raise ApiError(f"{file} is not text in UTF-8.", EXIT_USAGE) from error
    except OSError as error:
        raise ApiError(f"{file} can't be read: {error.strerror}", EXIT_USAGE) from error


def _json(line: str, number: int, file: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ApiError(f"{file}: line {number} is no JSON: {error.msg}", EXIT_USAGE) from error


def _said(answer: httpx.Response) -> str:
    """Return the sentence of a refusal, of the gateway or of the model server."""
    try:
        said = answer.json()
    except ValueError:
        return printable(answer.text[:300])
    found = said.get("detail") or said.get("error") if isinstance(said, dict) else said
    return printable(str(found)[:1000])


def _upload(s: Session, model: str, name: str, source: Path) -> None:
    from berth_cli.models import send_files  # only who sends needs it

    path = f"projects/{s.project}/models/{model}/versions/{name}"
    send_files(s, s.client.get(path), source)
    s.client.post(f"{path}/check", {})


def _base(s: Session) -> str:
    return f"projects/{s.project}/ai-platform/models"
