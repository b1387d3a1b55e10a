"""C1: a pasted kubeconfig is read by an allow-list; nothing in it runs, opens or fetches."""

import base64
import copy
import datetime as dt
import re
import subprocess
import textwrap

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runtime.drivers.kubernetes import kubeconfig
from runtime.drivers.kubernetes.kubeconfig import KubeconfigError, parse


def _pair(name: str) -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    cert = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return cert.public_bytes(serialization.Encoding.PEM).decode(), pem.decode()


CA, CA_KEY = _pair("ca")


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


GOOD = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "clusters": [
        {
            "name": "k",
            "cluster": {"server": "https://k.example:6443", "certificate-authority-data": b64(CA)},
        }
    ],
    "users": [{"name": "u", "user": {"token": "abc.def-123"}}],
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
}


def changed(**at) -> dict:
    """``cluster={…}``, ``user={…}``, ``context={…}`` merged in, None removes; others at the top."""
    made = copy.deepcopy(GOOD)
    for name, value in at.items():
        if name in {"cluster", "user", "context"}:
            target = made[f"{name}s"][0][name]
            for key, new in value.items():
                target.pop(key, None) if new is None else target.update({key: new})
        else:
            made[name] = value
    return made


def refused(document: dict | str) -> str:
    text = document if isinstance(document, str) else yaml.safe_dump(document)
    with pytest.raises(KubeconfigError) as caught:
        parse(text)
    return str(caught.value)


def test_a_plain_one_with_a_token():
    found = parse(yaml.safe_dump(GOOD))
    assert (found.server, found.token) == ("https://k.example:6443", "abc.def-123")
    assert found.ca_pem == CA
    assert "abc.def" not in repr(found)


def test_a_client_certificate_instead_of_a_token():
    cert, key = _pair("me")
    found = parse(
        yaml.safe_dump(
            changed(
                user={
                    "token": None,
                    "client-certificate-data": b64(cert),
                    "client-key-data": b64(key),
                }
            )
        )
    )
    assert found.client_cert_pem == cert
    assert "PRIVATE" not in repr(found)
    assert found.tls() is not None


def test_what_kubectl_adds_of_its_own_is_harmless():
    text = yaml.safe_dump(changed(preferences={}, extensions=[]))
    assert parse(text).server == "https://k.example:6443"
    text = yaml.safe_dump(changed(cluster={"extensions": [], "insecure-skip-tls-verify": False}))
    assert parse(text).server == "https://k.example:6443"


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        (
            "user",
            "exec",
            {
                "command": "touch",
                "args": ["/tmp/pwned"],
                "apiVersion": "client.authentication.k8s.io/v1",
            },
        ),
        ("user", "auth-provider", {"name": "gcp", "config": {"cmd-path": "/bin/sh"}}),
        ("user", "tokenFile", "/etc/passwd"),
        ("user", "client-certificate", "/etc/passwd"),
        ("user", "client-key", "/etc/shadow"),
        ("user", "username", "admin"),
        ("user", "as", "system:admin"),
        ("cluster", "certificate-authority", "/etc/passwd"),
        ("cluster", "proxy-url", "http://169.254.169.254"),
        ("cluster", "insecure-skip-tls-verify", True),
        ("cluster", "disable-compression", True),
    ],
)
def test_c1_what_is_not_on_the_list_is_refused_by_name(where, name, value, monkeypatch, tmp_path):
    def never(*_a, **_k):
        raise AssertionError("something was run or opened")

    monkeypatch.setattr(subprocess, "Popen", never)
    monkeypatch.setattr("builtins.open", never)
    message = refused(changed(**{where: {name: value}}))
    assert name in message


@pytest.mark.parametrize("plural", ["clusters", "users", "contexts"])
def test_c1_several_of_anything_are_refused(plural):
    document = copy.deepcopy(GOOD)
    document[plural].append(copy.deepcopy(document[plural][0]))
    assert plural in refused(document)
    assert "minify" in refused({**GOOD, plural: []})


@pytest.mark.parametrize(
    "server",
    [
        "http://k.example:6443",
        "https://",
        "https://u:p@k.example",
        "https://k.example/?x=1",
        "https://k.example/#x",
        "https://k.example\\@evil.example",
        "https://k.example:99999",
        "file:///etc/passwd",
        "https://k.example/a/../b c",
        "https://[::1",
        "https://k.exa mple",
    ],
)
def test_c1_odd_servers_are_refused(server):
    assert "https" in refused(changed(cluster={"server": server}))


def test_a_path_before_the_api_is_kept():
    text = yaml.safe_dump(changed(cluster={"server": "https://r.example/k8s/clusters/c-1/"}))
    assert parse(text).server == "https://r.example:443/k8s/clusters/c-1"


@pytest.mark.parametrize(
    "token", ["a b", "a\nX-Injected: 1", "é", "x" * 20000, "\x00", 42, ["a"], {"a": "b"}]
)
def test_c1_odd_tokens_are_refused(token):
    refused(changed(user={"token": token}))


def test_c1_no_credential_or_half_of_one_is_refused():
    refused(changed(user={"token": None}))
    cert, key = _pair("me")
    refused(changed(user={"client-certificate-data": b64(cert)}))
    other = _pair("other")[1]
    message = refused(
        changed(user={"client-certificate-data": b64(cert), "client-key-data": b64(other)})
    )
    assert "belong" in message
    refused(changed(user={"client-certificate-data": "!!", "client-key-data": b64(key)}))


def test_c1_a_certificate_for_a_key_of_no_known_kind_is_refused():
    cert, key = _pair("me")
    der = x509.load_pem_x509_certificate(cert.encode()).public_bytes(serialization.Encoding.DER)
    elliptic, unknown = bytes.fromhex("2a8648ce3d0201"), bytes.fromhex("2a8648ce3d027f")
    assert elliptic in der
    body = base64.encodebytes(der.replace(elliptic, unknown)).decode()
    odd = f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n"
    given = {"client-certificate-data": b64(odd), "client-key-data": b64(key)}
    assert "cannot be read" in refused(changed(user={"token": None, **given}))


def test_c1_the_authority_must_be_inside():
    refused(changed(cluster={"certificate-authority-data": None}))
    refused(changed(cluster={"certificate-authority-data": b64("hello")}))
    refused(changed(cluster={"certificate-authority-data": b64(CA_KEY)}))


def test_c1_yaml_tricks_are_refused():
    text = yaml.safe_dump(GOOD)
    assert "Tags" in refused(text + "\nx: !!python/object/apply:os.system ['id']\n")
    assert "Anchors" in refused("a: &a [x,x]\nb: [*a,*a]\n" + text)
    refused("x: " + "[" * 3000 + "]" * 3000)
    refused(text + "\n---\n" + text)
    assert "64" in refused("#" * (kubeconfig.SIZE_MAX + 1))
    refused("\x00")
    refused("[]")
    refused("")
    refused("1")
    refused(re.sub(r"kind: Config", "kind: Secret", text))


def test_c1_a_name_that_stands_twice_is_refused():
    text = yaml.safe_dump(GOOD).replace("kind: Config", "kind: Config\nkind: Config")
    assert "twice" in refused(text)
    text = textwrap.dedent("""
        users:
        - name: u
          user: {token: a, token: b}
    """)
    assert "twice" in refused(
        yaml.safe_dump({k: v for k, v in GOOD.items() if k != "users"}) + text
    )


def test_c1_a_context_that_names_something_else_is_refused():
    refused(changed(context={"cluster": "other"}))
    for odd in ("other", ["c"], {"c": "c"}, None, 1):
        assert "current" in refused({**GOOD, "current-context": odd})
