"""Public keys: what is taken, what is refused, what is kept."""

import base64
import struct

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from accounts.models import SshKey
from accounts.services.tokens import ssh_key_parse
from common.errors import Invalid
from events.models import Event


def line(private) -> str:
    public = private.public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def wire(*fields: bytes) -> str:
    blob = b"".join(struct.pack(">I", len(f)) + f for f in fields)
    return f"{fields[0].decode()} {base64.b64encode(blob).decode()}"


ED25519 = line(ed25519.Ed25519PrivateKey.generate())
SK = wire(b"sk-ssh-ed25519@openssh.com", b"k" * 32, b"ssh:")
SK_ECDSA = wire(b"sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", b"\x04" + b"k" * 64, b"ssh:")


@pytest.mark.parametrize(
    "text",
    [
        ED25519,
        f"  {ED25519} me@laptop\n",
        line(ec.generate_private_key(ec.SECP256R1())),
        line(ec.generate_private_key(ec.SECP521R1())),
        line(rsa.generate_private_key(65537, 2048)),
        SK,
        SK_ECDSA,
    ],
    ids=lambda t: t.split()[0],
)
def test_good_keys_are_taken_without_their_comment(text):
    parsed = ssh_key_parse(text)
    assert parsed.public_key == " ".join(text.split()[:2])
    assert parsed.fingerprint.startswith("SHA256:")
    assert len(parsed.fingerprint) == 50


def test_the_fingerprint_is_the_one_of_ssh_keygen():
    known = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
    assert ssh_key_parse(known).fingerprint == "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"


PRIVATE = (
    ed25519.Ed25519PrivateKey.generate()
    .private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    .decode()
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        PRIVATE,
        PRIVATE.replace("\n", " "),
        f'command="rm -rf /" {ED25519}',
        f"no-pty,{ED25519}",
        f"{ED25519}\nssh-rsa AAAA",
        f"{ED25519}\r\n{ED25519}",
        ED25519.replace("ssh-ed25519", "ssh-rsa", 1),
        ED25519[:-12],
        ED25519 + "AAAA",
        "ssh-ed25519 !!!!",
        "ssh-ed25519",
        "ssh-ed25519 " + "A" * 9000,
        wire(b"ssh-ed25519", b"k" * 31),
        wire(b"sk-ssh-ed25519@openssh.com", b"k" * 31, b"ssh:"),
        wire(b"sk-ssh-ed25519@openssh.com", b"k" * 32),
        wire(b"ecdsa-sha2-nistp256", b"nistp256", b"\x04" + b"k" * 64),
        wire(b"ssh-ed25519-cert-v01@openssh.com", b"x"),
        line(rsa.generate_private_key(65537, 1024)),
        wire(b"ssh-dss", b"p" * 128, b"q" * 20, b"g" * 128, b"y" * 128),
        ED25519 + " \u202eevil",
        ED25519 + " \x00",
    ],
    ids=lambda t: repr(t[:24]),
)
def test_everything_else_is_refused(text):
    with pytest.raises(Invalid) as refused:
        ssh_key_parse(text)
    assert "PRIVATE KEY-" not in str(refused.value)


@pytest.mark.django_db
def test_keys_are_added_shown_and_removed_on_the_page(alice, bob, as_user):
    client = as_user(alice)
    assert (
        client.post("/settings/ssh-keys", {"public_key": f"{ED25519} me@laptop"}).status_code == 302
    )
    key = SshKey.objects.get()
    assert key.name == "me@laptop"
    assert key.fingerprint.encode() in client.get("/settings/ssh-keys").content
    assert client.post("/settings/ssh-keys", {"public_key": ED25519}).status_code == 409
    bad = client.post("/settings/ssh-keys", {"public_key": "nonsense"})
    assert bad.status_code == 400
    assert as_user(bob).post(f"/settings/ssh-keys/{key.uid}/remove").status_code == 404
    assert client.post(f"/settings/ssh-keys/{key.uid}/remove").status_code == 302
    assert not SshKey.objects.exists()
    told = Event.objects.filter(verb__startswith="ssh-key.").order_by("id")
    verbs = list(told.values_list("verb", flat=True))
    assert verbs == ["ssh-key.added", "ssh-key.removed"]


@pytest.mark.django_db
def test_keys_over_the_api(alice, token_of, api):
    client = api(token_of(alice))
    made = client.post(
        "/api/v1/me/ssh-keys", {"public_key": SK, "name": "token"}, content_type="application/json"
    )
    assert made.status_code == 201
    assert client.get("/api/v1/me/ssh-keys").json()["results"][0]["name"] == "token"
    bad = client.post("/api/v1/me/ssh-keys", {"public_key": "x"}, content_type="application/json")
    assert bad.status_code == 400
    assert "public_key" in bad.json()["fields"]
    assert client.delete(f"/api/v1/me/ssh-keys/{made.json()['id']}").status_code == 204
