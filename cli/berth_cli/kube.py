"""kubectl: making a kubeconfig, and giving kubectl a token when it asks for one."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from berth_cli.client import EXIT_ERROR, EXIT_NOT_FOUND, EXIT_USAGE, ApiError, Client
from berth_cli.context import Session, with_session
from berth_cli.naming import among
from berth_cli.output import moment

API_VERSION = "client.authentication.k8s.io/v1"
_PATIENCE_S = 20.0
_COLUMNS: Any = (
    ("ID", lambda r: r["id"]),
    ("NAME", lambda r: r["name"]),
    ("CLUSTER", lambda r: r["cluster"]),
    ("KIND", lambda r: r["kind"]),
    ("EXPIRES", lambda r: moment(r["expires_at"])),
    ("LAST USED", lambda r: moment(r["last_used_at"])),
)


@click.command("kube-config")
@click.option("--cluster", help="Which cluster, when the project may use several.")
@click.option("--name", help="To recognise it; the name of this machine if not given.")
@click.option("--token-hours", type=click.IntRange(1, 24), help="Put a token in the file instead.")
@click.option("--file", "-f", "target", type=click.Path(), help="Write here (mode 0600).")
@click.option("--list", "listed", is_flag=True, help="Make none: list those you have.")
@click.option("--revoke", metavar="ID", help="Make none: take this one back, by id or name.")
@with_session
def kube_config(
    s: Session,
    cluster: str | None,
    name: str | None,
    token_hours: int | None,
    target: str | None,
    *,
    listed: bool,
    revoke: str | None,
) -> None:
    """Make a kubeconfig for the project: kubectl get, exec, logs and port-forward."""
    base = f"projects/{s.project}/kubeconfigs"
    if revoke is not None:
        none = f"You have no kubeconfig called {revoke} there."
        found = among(s.client.pages(base), revoke, what="kubeconfig", none=none)
        s.client.call("DELETE", f"{base}/{found['id']}")
        told = "opens nothing any more, within a minute if the cluster answers"
        click.echo(f"{found['name']} {told}.", err=True)
    if listed:
        s.show(list(s.client.pages(base)), _COLUMNS)
    if listed or revoke is not None:
        return
    body: dict[str, Any] = {"name": name or os.uname().nodename[:80]}
    body["cluster"] = cluster or _only_cluster(s.client, s.project)
    if token_hours is not None:
        body |= {"kind": "token", "hours": token_hours}
    if target is not None:
        # first: a file that nobody can have would count among one's own
        _check(Path(target), context=f"{s.project}@{body['cluster']}")
    made = s.client.post(base, body)
    text = str(_ask(s.client, f"{base}/{made['id']}/file")["kubeconfig"])
    if target is None:
        click.echo(text, nl=False)
        return
    _write(Path(target), text)
    click.echo(f"Wrote {target}. Try: kubectl --kubeconfig {target} get pods", err=True)


def _only_cluster(client: Client, project: str) -> str:
    keys = sorted({str(r["cluster"]) for r in client.pages(f"projects/{project}/places")})
    if len(keys) == 1:
        return keys[0]
    if not keys:
        raise ApiError("This project can use no Kubernetes cluster.", EXIT_NOT_FOUND)
    raise ApiError(f"Which cluster? Say --cluster ({', '.join(keys)}).", EXIT_USAGE)


def _check(path: Path, *, context: str) -> None:
    """Refuse what can't be written or holds something else; a folder that is missing is made."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ApiError(f"{path.parent} can't be made: {error.strerror}", EXIT_USAGE) from error
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise ApiError(f"{path} can't be written.", EXIT_USAGE)
    if path.exists() and not _is_replaceable(path, context):
        raise ApiError(
            f"{path} holds something else, which would be lost. Name another file: kubectl reads"
            f" several together (KUBECONFIG={path}:OTHER).",
            EXIT_USAGE,
        )


def _is_replaceable(path: Path, context: str) -> bool:
    """Whether the file is empty or one that an earlier call wrote for the same place."""
    import yaml

    try:
        held = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return False
    if held is None:
        return True
    contexts = held.get("contexts") if isinstance(held, dict) else None
    if not isinstance(contexts, list) or len(contexts) != 1:
        return False
    return isinstance(contexts[0], dict) and contexts[0].get("name") == context


def _write(path: Path, text: str) -> None:
    """Write atomically with mode 0600."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".kubeconfig-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@click.command("kube-credential")
@click.option("--cluster", help="As written in the kubeconfig.")
@click.option("--grant", help="Which kubeconfig; the newest one if not given.")
@with_session
def kube_credential(s: Session, cluster: str | None, grant: str | None) -> None:
    """Print a short-lived credential. kubectl runs this; people need not."""
    _check_asked_version()
    base = f"projects/{s.project}/kubeconfigs"
    made = _ask(s.client, f"{base}/{grant or _newest(s.client, base, cluster)}/token")
    credential = {
        "apiVersion": API_VERSION,
        "kind": "ExecCredential",
        "status": {"token": made["token"], "expirationTimestamp": made["expires_at"]},
    }
    click.echo(json.dumps(credential))


def _check_asked_version() -> None:
    """Speak only the version that kubectl asks for."""
    said = os.environ.get("KUBERNETES_EXEC_INFO", "")
    if not said:
        return
    try:
        asked = json.loads(said).get("apiVersion")
    except (ValueError, AttributeError):
        asked = None
    if asked != API_VERSION:
        raise ApiError(f"kubectl asks for {asked}; this speaks {API_VERSION}.", EXIT_ERROR)


def _newest(client: Client, base: str, cluster: str | None) -> str:
    for row in client.pages(base):
        if row["kind"] == "exec" and cluster in {None, row["cluster"]}:
            return str(row["id"])
    raise ApiError("You have no kubeconfig there. Run: berth kube-config", EXIT_NOT_FOUND)


def _ask(client: Client, path: str) -> Any:
    """Post; wait while the rights in the cluster are being made."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return client.post(path)
        except ApiError as error:
            is_early = error.problem.get("code") == "preparing"
            if not is_early or time.monotonic() > until:
                raise
        time.sleep(0.3)
