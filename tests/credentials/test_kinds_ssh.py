"""What is taken as a private SSH key and as the keys of its host, and what is not."""

from __future__ import annotations

import base64
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

from tests.credentials import samples
from tests.credentials.reading import read, refusal


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
    old = dsa.generate_private_key(1024)
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
