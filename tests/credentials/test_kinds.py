"""What each kind takes, and what it does not: before any library sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from credentials.kinds.gcs import key_file
from tests.credentials import samples
from tests.credentials.reading import read, refusal


@pytest.mark.parametrize("kind", samples.KINDS)
def test_a_good_one_of_each_kind_is_taken_and_shows_no_secret(kind: str) -> None:
    found = read(kind)
    for secret in samples.secrets_of(kind):
        assert secret in repr(dict(found.secret))
        assert secret not in repr(found)
        assert secret not in json.dumps(found.public)


# --- S3 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("access_key", ""),
        ("access_key", "AKIA"),
        ("access_key", "akiaiosfodnn7example"),
        ("access_key", "AKIAIOSFODNN7EXAMPLE\nrole_arn=x"),
        ("secret_key", ""),
        ("secret_key", "   "),
        ("secret_key", "wJalrXUtnFEMI"),
        ("secret_key", "k" * 39 + "\n"),
        ("secret_key", "k" * 20 + " " + "k" * 19),
        ("secret_key", None),
        ("region", ""),
        ("region", "Frankfurt"),
        ("region", "eu-central-1]\n[x"),
        ("session_token", "short"),
        ("bucket", "a/b"),
    ],
)
def test_d3_a_blank_or_partial_key_of_amazon_is_refused(field: str, value: Any) -> None:
    assert field in refusal("s3", **{field: value}).fields


def test_d3_a_temporary_key_needs_its_token() -> None:
    assert "session_token" in refusal("s3", access_key="ASIAIOSFODNN7EXAMPLE").fields
    found = read("s3", access_key="ASIAIOSFODNN7EXAMPLE", session_token=samples.TOKEN)
    assert found.secret["session_token"] == samples.TOKEN


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "http://s3.example.com",
        "ftp://s3.example.com",
        "https://user:pass@s3.example.com",
        "https://s3.example.com/bucket",
        "https://s3.example.com?x=1",
        "https://s3.example.com#x",
        "https://s3.example.com\\@evil.example",
        "https://2130706433",
        "https://0x7f.1",
        "https://127.0.0.1",
        "https://[::1]",
        "https://[::ffff:127.0.0.1]",
        "https://169.254.169.254",
        "https://10.0.0.1:9000",
        "https://s3.example.com:99999",
        "https://s3.example.com\nregion = x",
        "javascript:alert(1)",
    ],
)
def test_d2_an_endpoint_is_a_public_https_address_and_nothing_more(endpoint: str) -> None:
    assert "endpoint" in refusal("s3-compatible", endpoint=endpoint).fields


def test_an_endpoint_has_one_spelling() -> None:
    asked = {
        "s3.example.com": "https://s3.example.com",
        "https://S3.Example.com:443/": "https://s3.example.com",
        "https://s3.example.com:9000": "https://s3.example.com:9000",
    }
    for given, kept in asked.items():
        assert read("s3-compatible", endpoint=given).public["endpoint"] == kept


def test_an_operator_may_name_a_store_that_speaks_plain_http(settings: Any) -> None:
    settings.BERTH_INSECURE_STORES = ["127.0.0.1:9000"]
    found = read("s3-compatible", endpoint="http://127.0.0.1:9000")
    assert found.public["endpoint"] == "http://127.0.0.1:9000"
    assert "endpoint" in refusal("s3-compatible", endpoint="http://127.0.0.1:9001").fields


@pytest.mark.parametrize(
    "secret",
    ["", "ab", "a b c d", "line\nbreak", "nul\0", 'quo"te', "back\\slash", "%(x)s", "ключ"],
)
def test_d3_a_secret_that_would_begin_another_line_or_word_is_refused(secret: str) -> None:
    assert "secret_key" in refusal("s3-compatible", secret_key=secret).fields


# --- HDFS ---------------------------------------------------------------------------------------


def test_a_namenode_is_asked_by_a_name_or_by_a_token() -> None:
    named = read("hdfs", delegation_token="")
    assert (named.public["username"], named.secret) == ("ann", {"delegation_token": ""})
    assert "username" in refusal("hdfs", username="", delegation_token="").fields
    for name in ("a b", "a&op=DELETE", "ann/host@REALM", "-x", "a\nb"):
        assert "username" in refusal("hdfs", username=name).fields
    for token in ("short", "with blanks in the middle", 'quo"te-quo"te-quo', "a&op=DELETE&b=12345"):
        assert "delegation_token" in refusal("hdfs", delegation_token=token).fields
    for folder in ("/a/../b", "a//b"):
        assert "folder" in refusal("hdfs", folder=folder).fields
    assert read("hdfs", folder="data/").public["folder"] == "/data"


# --- GCS ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "external_account",
        "authorized_user",
        "impersonated_service_account",
        "gdch_service_account",
        "external_account_authorized_user",
        "",
    ],
)
def test_d4_only_the_key_of_a_service_account_is_taken(kind: str) -> None:
    told = refusal("gcs", key=json.dumps(samples.service_account(type=kind)))
    assert "key" in told.fields
    assert "service account" in told.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("token_uri", "https://evil.example/token"),
        ("token_uri", "http://oauth2.googleapis.com/token"),
        ("token_uri", "https://oauth2.googleapis.com.evil.example/token"),
        ("token_uri", "https://oauth2.googleapis.com/token?x="),
        ("auth_uri", "https://evil.example"),
        ("universe_domain", "evil.example"),
        ("auth_provider_x509_cert_url", "http://169.254.169.254/"),
        ("client_x509_cert_url", "https://evil.example/x"),
    ],
)
def test_d4_addresses_that_are_not_googles_are_refused(name: str, value: str) -> None:
    told = refusal("gcs", key=json.dumps(samples.service_account(**{name: value})))
    assert name in told.message
    assert "evil" not in told.message


def test_d4_an_operators_trial_may_have_another_token_address(settings: Any) -> None:
    settings.BERTH_GCS_TOKEN_URI = "http://127.0.0.1:4443/token"
    account = samples.service_account(token_uri="http://127.0.0.1:4443/token")
    found = read("gcs", key=json.dumps(account))
    assert key_file(found.public, found.secret)["token_uri"] == "http://127.0.0.1:4443/token"


@pytest.mark.parametrize(
    "change",
    [
        {"private_key": ""},
        {"private_key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"},
        {"private_key_id": "a\nb"},
        {"client_email": "me@example.com"},
        {"client_email": "a@b.iam.gserviceaccount.com\nx"},
        {"project_id": ""},
        {"project_id": 7},
        {"credential_source": {"file": "/etc/passwd"}},
        {"credential_source": "x"},
        {"service_account_impersonation_url": "https://evil.example"},
        {"quota_project_id": "x"},
    ],
)
def test_d4_missing_damaged_and_unknown_parts_are_refused(change: dict[str, Any]) -> None:
    refusal("gcs", key=json.dumps(samples.service_account(**change)))


def test_d4_a_weak_or_another_key_is_refused() -> None:
    small = rsa.generate_private_key(65537, 1024)
    other = ec.generate_private_key(ec.SECP256R1())
    for key in (small, other):
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        told = refusal("gcs", key=json.dumps(samples.service_account(private_key=pem)))
        assert "2048" in told.message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"x"',
        "7",
        "[" * 10_000,
        "{" + " " * 20_000 + "}",
        '{"type": "external_account", "type": "service_account"}',
        "\ufeff{}",
    ],
)
def test_d4_what_is_not_one_object_is_refused(text: str) -> None:
    refusal("gcs", key=text)


def test_d4_what_is_kept_is_written_anew() -> None:
    account = samples.service_account()
    account["private_key"] = account["private_key"].replace("\n", "\r\n") + "\n\n"
    found = read("gcs", key=json.dumps(account, indent=8))
    kept = key_file(found.public, found.secret)
    assert kept["private_key"] == samples.rsa_pem()
    assert set(kept) == set(samples.service_account())
    assert kept["client_x509_cert_url"].startswith("https://www.googleapis.com/robot/")


# --- Git and others -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("host", ""),
        ("host", "git.example.com/team"),
        ("host", "http://git.example.com"),
        ("host", "git.example.com\nhelper=x"),
        ("host", "2130706433"),
        ("username", "a:b"),
        ("username", "a\nb"),
        ("token", ""),
        ("token", "a\nb\nc\nd"),
        ("token", "with space"),
        ("token", "t" * 3000),
        ("repository", "../x"),
        ("repository", "a b"),
        ("repository", "-x"),
        ("repository", "https://evil.example/x"),
    ],
)
def test_a_git_token_is_one_word_for_one_host(field: str, value: str) -> None:
    assert field in refusal("git", **{field: value}).fields


def test_a_repository_may_be_pasted_as_an_address() -> None:
    found = read("git", repository="https://git.example.com/team/project.git/")
    assert found.public["repository"] == "team/project"


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"": "x"},
        {"A B": "x"},
        {"1A": "x"},
        {"A=B": "x"},
        {"A\nB": "x"},
        {"LD_PRELOAD": "x"},
        {"ld_preload": "x"},
        {"PATH": "x"},
        {"BERTH_SECRETS": "x"},
        {"JUPYTERHUB_API_TOKEN": "x"},
        {"A": ""},
        {"A": "a\0b"},
        {"A": "\ud800"},
        {"A": 7},
        {"A": "x" * 20_000},
        {f"A{n}": "x" for n in range(60)},
        {f"A{n}": "x" * 16_000 for n in range(6)},
        ["A"],
        "A=1",
    ],
)
def test_other_values_have_names_that_a_user_may_set(values: Any) -> None:
    assert "values" in refusal("generic", values=values).fields


def test_c4_files_have_plain_names_and_no_variable_of_berths() -> None:
    found = read("generic", given_as="file", values={"kaggle.json": "{}"})
    assert found.public["names"] == ["kaggle.json"]
    for name in ("../x", "a/b", ".bashrc", "", "a b", "x" * 101, "berth_x", "ld_x", "a.b/"):
        told = refusal("generic", given_as="file", values={name: "x"})
        assert "values" in told.fields
    refusal("generic", given_as="file", values={"a.b": "x", "a-b": "y"})
    refusal("generic", given_as="stdin", values={"A": "x"})
