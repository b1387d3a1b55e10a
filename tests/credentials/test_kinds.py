"""What each kind takes, and what it does not: before any library sees it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_ssh_private_key,
)

from common.errors import Invalid
from credentials.kinds import KINDS, Read
from credentials.kinds.gcs import key_file
from tests.credentials import samples


def read(kind: str, **more: Any) -> Read:
    given = samples.fields(kind, **more)
    settings = KINDS[kind].settings(given)
    found = KINDS[kind].secret(given)
    return Read({**settings, **found.public}, found.secret)


def refusal(kind: str, **more: Any) -> Invalid:
    with pytest.raises(Invalid) as told:
        read(kind, **more)
    for name, value in more.items():
        assert not isinstance(value, str) or len(value) < 12 or value not in str(told.value), name
    return told.value


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


# --- SSH ----------------------------------------------------------------------------------------


def pem(key: Any, how: PrivateFormat, password: bytes = b"") -> str:
    seal = BestAvailableEncryption(password) if password else NoEncryption()
    return str(key.private_bytes(Encoding.PEM, how, seal).decode())


def test_keys_of_every_usual_form_are_taken_and_written_in_one() -> None:
    keys = [
        (ed25519.Ed25519PrivateKey.generate(), PrivateFormat.OpenSSH),
        (ed25519.Ed25519PrivateKey.generate(), PrivateFormat.PKCS8),
        (rsa.generate_private_key(65537, 2048), PrivateFormat.TraditionalOpenSSL),
        (rsa.generate_private_key(65537, 2048), PrivateFormat.OpenSSH),
        (ec.generate_private_key(ec.SECP256R1()), PrivateFormat.TraditionalOpenSSL),
        (ec.generate_private_key(ec.SECP384R1()), PrivateFormat.OpenSSH),
    ]
    for key, how in keys:
        found = read("ssh", private_key=pem(key, how).replace("\n", "\r\n"))
        kept = load_ssh_private_key(found.secret["private_key"].encode(), None)
        assert kept.public_key() == key.public_key()
        assert found.public["fingerprint"].startswith("SHA256:")


def test_a_key_with_a_passphrase_is_told_and_never_opened() -> None:
    body = b"".join(len(w).to_bytes(4, "big") + w for w in (b"aes256-ctr", b"bcrypt", b"x" * 24))
    data = base64.b64encode(b"openssh-key-v1\0" + body).decode()
    sealed = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{data}\n-----END OPENSSH PRIVATE KEY-----\n"
    key = ed25519.Ed25519PrivateKey.generate()
    for text in (sealed, pem(key, PrivateFormat.PKCS8, b"secret words")):
        assert "passphrase" in refusal("ssh", private_key=text).message


def test_other_things_are_no_private_keys() -> None:
    whole = samples.ssh_key()
    small = rsa.generate_private_key(65537, 1024)
    old = dsa.generate_private_key(2048)
    for text in (
        "",
        "hello",
        samples.host_key(),
        whole.replace("END", "ENDE"),
        whole[: len(whole) // 2],
        whole + whole,
        whole.replace("OPENSSH", "CERTIFICATE"),
        "PuTTY-User-Key-File-3: ssh-ed25519",
        pem(small, PrivateFormat.PKCS8),
        pem(old, PrivateFormat.PKCS8),
        "-----BEGIN PRIVATE KEY-----\n" + "A" * 20_000 + "\n-----END PRIVATE KEY-----",
        f"ProxyCommand x\n{whole}",
    ):
        assert "private_key" in refusal("ssh", private_key=text).fields


def test_keys_of_a_host_are_kept_without_names_and_comments() -> None:
    key = samples.host_key()
    salt = base64.b64encode(b"s" * 20).decode()
    for text in (
        f"git.example.com {key}",
        f"git.example.com,10.0.0.1 {key} comment",
        f"# a comment\n{key} other words\n\n",
        f"git.example.com {key}\ngit.example.com {key}",
    ):
        assert read("ssh", known_hosts=text).public["known_hosts"] == [key]
    for text in (
        f"evil.example.com {key}",
        f"@cert-authority * {key}",
        f"|1|{salt}|{salt} {key}",
        "git.example.com ssh-ed25519 AAAA",
        f"git.example.com\n{key}\nHost *\n    ProxyCommand sh",
        f"{key}\n" * 11,
    ):
        assert "known_hosts" in refusal("ssh", known_hosts=text).fields
    assert "known_hosts" in refusal("ssh", host="", known_hosts=key).fields


def test_a_hashed_name_of_the_host_is_known_again() -> None:
    import hashlib
    import hmac

    salt = b"salt-of-twenty-bytes"
    digest = hmac.new(salt, b"[git.example.com]:2222", hashlib.sha1).digest()
    name = "|1|" + "|".join(base64.b64encode(part).decode() for part in (salt, digest))
    found = read("ssh", host="git.example.com:2222", known_hosts=f"{name} {samples.host_key()}")
    assert found.public["known_hosts"] == [samples.host_key()]


@pytest.mark.parametrize("user", ["-oProxyCommand=sh", "a b", "a\nb", "a" * 65, "$(x)"])
def test_a_user_name_is_a_word(user: str) -> None:
    assert "user" in refusal("ssh", user=user).fields


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
