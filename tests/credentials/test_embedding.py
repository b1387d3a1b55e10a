"""What work is given: environments and files that the usual programs read."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from common.errors import Unavailable
from common.outbound import OutboundError
from credentials.embedding import embed
from credentials.embedding.items import Item
from credentials.models import Credential
from runtime.drivers.mounts import filled
from tests.credentials import samples

pytestmark = pytest.mark.django_db

# Everything that a person may write into a name, a setting or a secret to begin another line.
INJECTED = "x\n[evil]\nkey = 1"


def ini(text: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=True)
    parser.read_string(text)
    return parser


def written(rows: Any, folder: Path) -> dict[str, str]:
    """Do what a driver does: write the files, and put their folder into the environment."""
    made = embed(rows)
    folder.mkdir(mode=0o700, exist_ok=True)
    files = filled(made.secret_files(), made.placed_files, folder=str(folder), memory=str(folder))
    for name, text in files.items():
        assert "/" not in name
        path = folder / name
        path.write_text(text)
        path.chmod(0o400)
    plain = {k: v.replace("{secrets}", str(folder)) for k, v in made.env.items()}
    return {**plain, **made.secret_env()}


def test_one_key_pair_is_in_variables_and_files(project: Any, keep: Any) -> None:
    made = embed([keep("s3-compatible", "Our store", path_style=True)])
    assert made.env["AWS_CONFIG_FILE"] == "{secrets}/aws-config"
    assert made.env["AWS_ENDPOINT_URL"] == made.env["AWS_ENDPOINT_URL_S3"]
    assert made.env["AWS_ENDPOINT_URL"] == made.env["S3_ENDPOINT_URL"] == "https://s3.example.com"
    assert made.env["AWS_REGION"] == made.env["AWS_DEFAULT_REGION"] == "us-east-1"
    assert made.env["AWS_EC2_METADATA_DISABLED"] == "true"
    assert made.env["BERTH_SECRETS"] == "{secrets}"
    assert made.secret_env() == {
        "AWS_ACCESS_KEY_ID": "loader",
        "AWS_SECRET_ACCESS_KEY": samples.COMPATIBLE_SECRET,
        "AWS_SESSION_TOKEN": samples.TOKEN,
    }
    files = made.secret_files()
    config, keys = ini(files["aws-config"]), ini(files["aws-credentials"])
    assert config.sections() == ["default", "profile our-store"]
    assert keys.sections() == ["default", "our-store"]
    for section in ("default", "profile our-store"):
        assert config[section]["s3"].strip() == "addressing_style = path"
        assert config[section]["endpoint_url"] == "https://s3.example.com"
    assert keys["our-store"]["aws_secret_access_key"] == samples.COMPATIBLE_SECRET
    remote = ini(files["rclone.conf"])["our-store"]
    assert (remote["type"], remote["provider"], remote["env_auth"]) == ("s3", "Other", "false")
    assert (remote["endpoint"], remote["force_path_style"]) == ("https://s3.example.com", "true")


def test_of_several_no_variable_wins_over_a_profile(project: Any, keep: Any) -> None:
    made = embed([keep("s3", "first"), keep("s3-compatible", "second")])
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "S3_ENDPOINT_URL"):
        assert name not in made.env
    assert made.secret_env() == {}
    keys = ini(made.secret_files()["aws-credentials"])
    assert keys["default"]["aws_access_key_id"] == keys["first"]["aws_access_key_id"]
    assert keys["second"]["aws_access_key_id"] == "loader"
    assert "endpoint_url" not in ini(made.secret_files()["aws-config"])["default"]
    assert ini(made.secret_files()["rclone.conf"]).sections() == ["first", "second"]


def test_google_gets_a_file_and_the_project(project: Any, keep: Any) -> None:
    made = embed([keep("gcs", "one"), keep("gcs", "two")])
    path = "{secrets}/gcs-one.json"
    assert made.env["GOOGLE_APPLICATION_CREDENTIALS"] == path
    assert made.env["CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE"] == path
    assert made.env["GOOGLE_CLOUD_PROJECT"] == made.env["CLOUDSDK_CORE_PROJECT"] == "tests-1234"
    files = made.secret_files()
    assert json.loads(files["gcs-one.json"])["private_key"] == samples.rsa_pem()
    remotes = ini(files["rclone.conf"])
    assert remotes.sections() == ["one", "two"]
    inline = json.loads(remotes["two"]["service_account_credentials"])
    assert inline["type"] == "service_account"
    assert "API_ENDPOINT_OVERRIDE" not in made.env
    assert made.env["BOTO_CONFIG"] == "{secrets}/boto"
    assert made.placed_files == ("boto",)
    boto = ini(files["boto"])
    assert boto["Credentials"]["gs_service_key_file"] == path
    assert "gs_json_host" not in boto["Credentials"]
    assert boto["Boto"]["https_validate_certificates"] == "true"
    assert boto["GSUtil"]["default_project_id"] == "tests-1234"
    assert boto["GSUtil"]["state_dir"] == "{memory}/gsutil"  # a copy of the key lies there


@pytest.mark.parametrize(
    ("endpoint", "host", "port"),
    [
        ("https://gcs.example:4443/", "gcs.example", "4443"),
        ("https://gcs.example", "gcs.example", ""),
        ("https://[::1]:4443", "[::1]", "4443"),
    ],
)
def test_gsutil_is_told_of_the_operators_own_place(
    project: Any, keep: Any, settings: Any, endpoint: str, host: str, port: str
) -> None:
    settings.BERTH_GCS_ENDPOINT = endpoint
    settings.BERTH_GCS_TOKEN_URI = "https://gcs.example/token"
    boto = ini(embed([keep("gcs")]).secret_files()["boto"])
    assert boto["Credentials"]["gs_json_host"] == host
    assert boto["Credentials"].get("gs_json_port", "") == port
    assert boto["OAuth2"]["provider_token_uri"] == "https://gcs.example/token"


def test_what_people_stored_is_never_filled_in(project: Any, keep: Any, tmp_path: Path) -> None:
    text = "{secrets} {memory}\n"
    rows = [keep("generic", "file", given_as="file", values={"boto": text}), keep("gcs", "one")]
    env = written(rows, tmp_path / "secrets")
    assert Path(env["BOTO_FILE"]).read_text() == text
    boto = ini(Path(env["BOTO_CONFIG"]).read_text())
    assert boto["Credentials"]["gs_service_key_file"] == f"{tmp_path}/secrets/gcs-one.json"
    assert boto["GSUtil"]["state_dir"] == f"{tmp_path}/secrets/gsutil"


def test_nothing_opens_a_secret_before_a_driver_writes(
    project: Any, keep: Any, settings: Any
) -> None:
    row = keep("s3")
    settings.BERTH_CREDENTIAL_KEYS = ["another"]
    made = embed([row])
    assert made.env
    for ask in (made.secret_env, made.secret_files):
        with pytest.raises(Unavailable, match="BERTH_CREDENTIAL_KEYS"):
            ask()


def test_d13_what_is_gone_is_left_out_and_its_use_is_noted(project: Any, keep: Any) -> None:
    rows = [keep("s3", "first"), keep("git", "second")]
    made = embed(rows)
    Credential.objects.filter(pk=rows[0].pk).delete()
    assert list(made.secret_files()) == ["git-second"]
    row = Credential.objects.get()
    assert (row.last_used_for, row.last_used_at is not None) == ("work", True)


def test_names_of_profiles_are_plain_and_never_alike(project: Any, keep: Any) -> None:
    named = ["default", "Our store", "our-store", "[evil]", "日本語", "日本", "a]\\b", "../up"]
    files = embed([keep("s3", name) for name in named]).secret_files()
    sections = ini(files["aws-credentials"]).sections()
    assert len(set(sections)) == len(named) + 1
    assert sections[:5] == ["default", "default-2", "our-store", "our-store-2", "evil"]
    assert all(part.replace("-", "").isalnum() and part.isascii() for part in sections)


@pytest.mark.parametrize("kind", ["s3", "s3-compatible", "git", "ssh"])
def test_nothing_that_got_into_a_row_begins_another_line(
    project: Any, keep: Any, kind: str
) -> None:
    """Whatever a kind let through once, or a hand wrote into the table: it is not written."""
    from credentials import embedding

    row = keep(kind)
    fields = [n for n, v in row.public.items() if isinstance(v, str) and n != "bucket"]
    fields = [n for n in fields if n not in {"public_key", "fingerprint", "repository"}]
    assert fields
    for name in fields:
        item = Item("a", kind, {**row.public, name: INJECTED}, _secret(row))
        with pytest.raises((ValueError, OutboundError)):
            _ = embedding._files([item]), embedding._env([item])
    for name in _secret(row):
        if name == "private_key":
            continue  # a file of its own, written anew by the library
        item = Item("a", kind, row.public, {**_secret(row), name: INJECTED})
        with pytest.raises(ValueError):
            embedding._files([item])


def _secret(row: Any) -> dict[str, str]:
    from credentials.decrypt import opened

    return opened(row)


def test_other_secrets_are_variables_or_files(project: Any, keep: Any) -> None:
    rows = [
        keep(
            "generic", "env", values={"TOKEN": "one", "AWS_REGION": "mine", "BRACES": "{secrets}"}
        ),
        keep("generic", "again", values={"TOKEN": "two"}),
        keep("generic", "file", given_as="file", values={"kaggle.json": "{}\n", "b.pem": "x\ny"}),
        keep("s3"),
    ]
    made = embed(rows)
    found = made.secret_env()
    assert (found["TOKEN"], found["BRACES"]) == ("one", "{secrets}")
    assert "AWS_REGION" not in found  # what Berth sets for a store is not another's to change
    assert made.env["KAGGLE_JSON_FILE"] == "{secrets}/secret-file-kaggle.json"
    assert made.secret_files()["secret-file-kaggle.json"] == "{}\n"
    assert made.secret_files()["secret-file-b.pem"] == "x\ny"


def test_a_registry_is_nothing_for_work(project: Any, keep: Any) -> None:
    made = embed([keep("registry")])
    assert (dict(made.env), made.secret_env(), made.secret_files()) == ({}, {}, {})


# --- git and ssh themselves ---------------------------------------------------------------------


def run(*command: str, env: dict[str, str], stdin: str = "") -> str:
    done = subprocess.run(
        command,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **env},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_git_finds_the_token_of_its_host_and_of_its_user(
    project: Any, keep: Any, tmp_path: Path
) -> None:
    rows = [
        keep("git", "first", username="one", token="token-1"),
        keep("git", "second", username="two@x", token="token-2"),
        keep("git", "third", host="other.example:8443", username="three", token="token-3"),
    ]
    env = written(rows, tmp_path / "with space")
    env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}

    def fill(url: str) -> str:
        return run("git", "credential", "fill", env=env, stdin=f"url={url}\n\n")

    assert "username=one\npassword=token-1" in fill("https://git.example.com/a/b.git")
    assert "password=token-2" in fill("https://two%40x@git.example.com/a/b.git")
    assert "password=token-3" in fill("https://other.example:8443/x")
    assert fill("https://evil.example/a.git") == ""
    assert fill("http://git.example.com/a.git") == ""
    before = (tmp_path / "with space" / "git-first").read_text()
    told = "protocol=https\nhost=git.example.com\nusername=one\npassword=token-1\n\n"
    run("git", "credential", "reject", env=env, stdin=told)
    assert (tmp_path / "with space" / "git-first").read_text() == before


@pytest.mark.skipif(not shutil.which("ssh"), reason="needs ssh")
def test_ssh_reads_the_settings_of_each_host(project: Any, keep: Any, tmp_path: Path) -> None:
    rows = [
        keep("ssh", "git key", host="git.example.com:2222", known_hosts=samples.host_key()),
        keep("ssh", "everywhere", host="", user="", known_hosts=""),
    ]
    folder = tmp_path / "secrets"
    env = written(rows, folder)
    config = env["BERTH_SSH_CONFIG"]

    def settings(host: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for line in run("ssh", "-F", config, "-G", host, env=env).splitlines():
            name, _space, value = line.partition(" ")
            found.setdefault(name, []).append(value)
        return found

    one = settings("git.example.com")
    assert (one["port"], one["user"]) == (["2222"], ["git"])
    here = "${BERTH_SECRETS}"  # put in when it is used; a real sign-in is in test_probe_hosts
    assert one["identityfile"] == [f"{here}/ssh-key-git-key", f"{here}/ssh-key-everywhere"]
    assert one["stricthostkeychecking"] in (["true"], ["yes"])
    assert one["userknownhostsfile"] == [f"{folder}/ssh-known-hosts"]
    other = settings("elsewhere.example")
    assert other["identityfile"] == [f"{here}/ssh-key-everywhere"]
    assert other["stricthostkeychecking"] == ["ask"]
    known = (folder / "ssh-known-hosts").read_text()
    assert known == f"[git.example.com]:2222 {samples.host_key()}\n"
    shown = run("ssh-keygen", "-y", "-f", str(folder / "ssh-key-git-key"), env=env)
    assert shown.split()[:2] == rows[0].public["public_key"].split()[:2]
    assert env["GIT_SSH_COMMAND"] == f'ssh -F "{config}"'
