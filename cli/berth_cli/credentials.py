"""Credentials: store, list, replace, test, remove. A secret is read from a file, a pipe or a
hidden question, never from the command line: that is seen by every program of the machine.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from berth_cli import completing, documents
from berth_cli.client import EXIT_ERROR, EXIT_USAGE, ApiError
from berth_cli.context import Session, with_session
from berth_cli.naming import among, is_uid, without_none
from berth_cli.output import age, moment

COLUMNS: Any = (
    ("NAME", lambda r: r["name"]),
    ("KIND", lambda r: r["kind"]),
    ("FOR", lambda r: r["target"]),
    ("WHOSE", lambda r: "yours" if r["personal"] else r["usable_by"]),
    ("AGE", lambda r: age(r["created_at"])),
    ("LAST USED", lambda r: moment(r["last_used_at"])),
    ("GOOD UNTIL", lambda r: moment(r["expires_at"])),
    ("TESTED", lambda r: {True: "accepted", False: "refused"}.get(r["test_ok"])),
)
ONE: Any = (
    *COLUMNS,
    ("ID", lambda r: r["id"]),
    ("VERSION", lambda r: r["version"]),
    ("SETTINGS", lambda r: [f"{k}={v}" for k, v in r["settings"].items() if v not in ("", [])]),
    ("USED BY", lambda r: [f"{h['name']} ({h['who']})" for h in r.get("used_by", [])]),
    ("SAID WHEN TESTED", lambda r: r["test_message"]),
)
# The field that a file's whole content becomes; the other kinds are read line by line.
WHOLE = {
    "registry": "password",
    "git": "token",
    "gcs": "key",
    "hdfs": "delegation_token",
    "mlflow": "password",
    "ssh": "private_key",
}
ONE_LINE = {"registry", "git", "hdfs", "mlflow"}
PAIR = {
    "aws_access_key_id": "access_key",
    "aws_secret_access_key": "secret_key",
    "aws_session_token": "session_token",
}
KINDS = ("s3", "s3-compatible", "gcs", "hdfs", "mlflow", "registry", "git", "ssh", "generic")
documents.REFUSED["Credential"] = (
    "Secrets do not belong into a file that is kept and shown. Use: berth credentials add"
)


@click.group()
def credentials() -> None:
    """Credentials: keys that work uses elsewhere. Stored once, read by nobody."""


def _base(s: Session, *, own: bool) -> str:
    return "me/credentials" if own else f"projects/{s.project}/credentials"


def _find(s: Session, name: str, *, own: bool) -> str:
    """Return the path of one, by id or by name."""
    base = _base(s, own=own)
    if is_uid(name):
        return f"{base}/{name}"
    whose = "You have" if own else f"{s.project} has"
    none = f"{whose} no credential called {name}."
    found = among(s.client.pages(base), name, what="credential", none=none)
    return f"{base}/{found['id']}"


def _own(command: Any) -> Any:
    text = "Your own, for all your projects, instead of the project's."
    return click.option("--own", is_flag=True, help=text)(command)


def _secret(command: Any) -> Any:
    return click.option(
        "--secret-file",
        "source",
        metavar="FILE",
        help="Where the secret is read from; - is standard input. Else it is asked for.",
    )(command)


_FIELDS = (
    ("--endpoint", "Address of the store (s3-compatible), namenode (hdfs) or server (mlflow)."),
    ("--access-key", "s3: the id of the key, when the file holds the secret alone."),
    ("--region", "s3: the region."),
    ("--bucket", "s3, gcs: a bucket to test with."),
    ("--host", "registry, git, ssh: the host."),
    ("--username", "registry, git, hdfs, mlflow: the user name."),
    ("--folder", "hdfs: a folder to test with."),
    ("--user", "ssh: the user name there."),
    ("--repository", "git: a repository to test with."),
    ("--file-name", "generic: give the secret as one file of this name."),
)


def _fields(command: Any) -> Any:
    for flag, text in reversed(_FIELDS):
        command = click.option(flag, help=text)(command)
    command = click.option(
        "--known-hosts", type=click.File(), help="ssh: the host's keys, as ssh-keyscan prints them."
    )(command)
    return click.option(
        "--virtual-host", is_flag=True, help="s3-compatible: the bucket is in the host's name."
    )(command)


@credentials.command("list")
@click.option("--usable", is_flag=True, help="What you may use in your work there.")
@_own
@with_session
def credential_list(s: Session, *, usable: bool, own: bool) -> None:
    """List what is stored. No secret is ever shown."""
    path = _base(s, own=own) + ("/usable" if usable and not own else "")
    s.show(list(s.client.pages(path)), COLUMNS)


@credentials.command("show")
@click.argument("name", shell_complete=completing.credentials)
@_own
@with_session
def credential_show(s: Session, name: str, *, own: bool) -> None:
    """Show one: settings, where it is used, what its test said."""
    s.show(s.client.get(_find(s, name, own=own)), ONE)


@credentials.command("add")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@_secret
@_fields
@click.option("--description", help="What it opens.")
@click.option(
    "--usable-by",
    type=click.Choice(["members", "managers", "owner"]),
    help="Who may use it in work.",
)
@click.option("--expires-at", metavar="TIME", help="As in 2027-01-31T00:00:00Z.")
@_own
@with_session
def credential_add(
    s: Session, kind: str, name: str, source: str | None, *, own: bool, **given: Any
) -> None:
    """Store a credential of a KIND under a NAME.

    \b
    berth credentials add gcs "training data" --secret-file key.json
    berth credentials add hdfs lake --endpoint https://namenode.example.com:9871 --username ann
    berth credentials add s3-compatible store --endpoint https://s3.example.com --secret-file -
    """  # noqa: D301 - a mark of click: what follows keeps its lines
    body = {"kind": kind, "name": name, **_settings(given), **_read(kind, source, given)}
    s.show(s.client.post(_base(s, own=own), without_none(body)), COLUMNS)


@credentials.command("rotate")
@click.argument("name", shell_complete=completing.credentials)
@_secret
@click.option("--access-key", help="s3: the id of the new key, when the file holds no id.")
@click.option("--username", help="registry, git, hdfs, mlflow: another user name.")
@click.option("--file-name", help="generic: give the secret as one file of this name.")
@click.option("--expires-at", metavar="TIME", help="As in 2027-01-31T00:00:00Z.")
@_own
@with_session
def credential_rotate(
    s: Session, name: str, source: str | None, *, own: bool, **given: Any
) -> None:
    """Replace the secret of NAME; what starts from now on uses the new one."""
    path = _find(s, name, own=own)
    kind = s.client.get(path)["kind"]
    said = {name: given[name] for name in ("username", "expires_at")}
    done = s.client.post(f"{path}/rotate", without_none({**said, **_read(kind, source, given)}))
    s.show(done, COLUMNS)
    if s.fmt == "table" and done["used_by"]:
        names = ", ".join(holder["name"] for holder in done["used_by"])
        click.echo(f"The old secret stays until their next start in: {names}", err=True)


@credentials.command("test")
@click.argument("name", shell_complete=completing.credentials)
@_own
@with_session
def credential_test(s: Session, name: str, *, own: bool) -> None:
    """Ask what NAME opens whether it is let in. Ends with 1 when it is refused."""
    said = s.client.post(f"{_find(s, name, own=own)}/test")
    columns = (("ACCEPTED", lambda r: r["ok"]), ("SAID", lambda r: r["message"]))
    s.show(said, columns)
    if said["ok"] is False:
        sys.exit(EXIT_ERROR)


@credentials.command("delete")
@click.argument("name", shell_complete=completing.credentials)
@click.option("--yes", is_flag=True, help="Do not ask.")
@_own
@with_session
def credential_delete(s: Session, name: str, *, yes: bool, own: bool) -> None:
    """Remove NAME; its copies are taken from all work within a minute."""
    path = _find(s, name, own=own)
    row = s.client.get(path)
    if not yes:
        for holder in row["used_by"]:
            click.echo(f"It is used by {holder['name']} ({holder['who']}).", err=True)
        click.confirm(f"Remove {row['name']}?", abort=True, err=True)
    s.client.call("DELETE", path)
    click.echo(f"{row['name']} is removed.", err=True)


_NOT_SECRET = (
    *("description", "usable_by", "expires_at", "endpoint", "region", "bucket", "folder", "host"),
    *("username", "user", "repository"),
)


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return what is not secret, by the names of the API."""
    found = {name: given.get(name) for name in _NOT_SECRET}
    if given.get("known_hosts") is not None:
        try:
            found["known_hosts"] = given["known_hosts"].read()
        except UnicodeDecodeError as error:
            raise ApiError(f"{given['known_hosts'].name} is not text.", EXIT_USAGE) from error
    if given.get("virtual_host"):
        found["path_style"] = False
    return found


def _read(kind: str, source: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a secret's text becomes."""
    if kind in {"hdfs", "mlflow"} and source is None:
        return {}  # a name alone, or nobody: who has a secret says where it is
    text = _text(kind, source)
    if kind in WHOLE:
        return {WHOLE[kind]: text.strip() if kind in ONE_LINE else text}
    if kind == "generic" and given.get("file_name"):
        return {"given_as": "file", "values": {given["file_name"]: text}}
    if kind == "generic":
        return {"given_as": "env", "values": _pairs(text)}
    return _key_pair(text, given.get("access_key"))


def _text(kind: str, source: str | None) -> str:
    if source is None and sys.stdin.isatty():
        if kind not in {*ONE_LINE, "s3", "s3-compatible"}:
            raise ApiError("Say where the secret is: --secret-file FILE", EXIT_USAGE)
        return str(click.prompt("Secret", hide_input=True, err=True))
    piped = source in {None, "-"}
    named = "Standard input" if piped else source
    try:
        return sys.stdin.read() if piped else Path(str(source)).read_text()
    except OSError as error:
        raise ApiError(f"{named} can't be read: {error.strerror}", EXIT_USAGE) from error
    except UnicodeDecodeError as error:
        raise ApiError(f"{named} is not text.", EXIT_USAGE) from error


def _pairs(text: str) -> dict[str, str]:
    """Read NAME=value lines; lines that begin with # or [ are passed over."""
    found: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line or line[0] in "#[":
            continue
        name, sign, value = line.removeprefix("export ").partition("=")
        if not sign:
            raise ApiError(f"Line {number} of the secret is no NAME=value.", EXIT_USAGE)
        found[name.strip()] = value.strip()
    return found


def _key_pair(text: str, access_key: str | None) -> dict[str, Any]:
    """Read the secret alone, or lines as in AWS's own file."""
    if len(text.split()) == 1 and not text.strip().lower().startswith("aws_"):
        return {"access_key": access_key, "secret_key": text.strip()}
    found = {name.lower(): value for name, value in _pairs(text).items()}
    unknown = sorted(set(found) - set(PAIR))
    if unknown:
        raise ApiError(f"{unknown[0][:40]} is not taken: only a whole key pair is.", EXIT_USAGE)
    return {"access_key": access_key, **{PAIR[name]: value for name, value in found.items()}}
