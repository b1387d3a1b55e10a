"""Authenticator app, recovery codes and passkeys, with a passkey made of software."""

import json

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import (
    format_hotp_value,
    hotp_value,
    yield_hotp_counters_from_time,
)
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from django.core.cache import cache
from django.test import Client
from fido2.cose import ES256
from fido2.utils import sha256, websafe_encode
from fido2.webauthn import (
    AttestationObject,
    AttestedCredentialData,
    AuthenticatorData,
    CollectedClientData,
)

from tests.accounts.conftest import PASSWORD

pytestmark = pytest.mark.django_db
ORIGIN = "http://testserver"


def code_of(secret):
    return format_hotp_value(hotp_value(secret, next(iter(yield_hotp_counters_from_time()))))


def with_totp(client):
    """Switch the authenticator app on; return its secret."""
    client.get("/accounts/2fa/totp/activate/")
    secret = client.session["mfa.totp.secret"]
    answer = client.post("/accounts/2fa/totp/activate/", {"code": code_of(secret)})
    assert answer.status_code == 302
    cache.clear()  # a code is used once; the tests do not wait for the next
    return secret


@pytest.fixture
def signed_in(alice, sign_in):
    client = Client()
    sign_in(client, "alice")
    # what changes the security of the account asks for the password once more
    assert "/accounts/reauthenticate/" in client.get("/accounts/2fa/totp/activate/").url
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    return client


class SoftKey:
    """A passkey in memory: answers what the browser's API would."""

    def __init__(self):
        self.private = ec.generate_private_key(ec.SECP256R1())
        self.id = b"soft-key-0123456"
        self.user = b""

    def create(self, options):
        wanted = options["publicKey"]
        self.user = wanted["user"]["id"]
        data = AttestedCredentialData.create(
            b"\0" * 16, self.id, ES256.from_cryptography_key(self.private.public_key())
        )
        flags = AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.UV | AuthenticatorData.FLAG.AT
        auth = AuthenticatorData.create(sha256(wanted["rp"]["id"].encode()), flags, 0, data)
        return self._answer(
            {
                "clientDataJSON": self._client("webauthn.create", wanted["challenge"]),
                "attestationObject": bytes(AttestationObject.create("none", auth, {})),
            },
            {"credProps": {"rk": True}},
        )

    def get(self, options):
        wanted = options["publicKey"]
        flags = AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.UV
        auth = bytes(AuthenticatorData.create(sha256(wanted["rpId"].encode()), flags, 1))
        client = self._client("webauthn.get", wanted["challenge"])
        signature = self.private.sign(auth + sha256(client), ec.ECDSA(SHA256()))
        from fido2.utils import websafe_decode

        return self._answer(
            {
                "clientDataJSON": client,
                "authenticatorData": auth,
                "signature": signature,
                "userHandle": websafe_decode(self.user),
            },
            {},
        )

    def _client(self, kind, challenge):
        return bytes(CollectedClientData.create(kind, challenge, ORIGIN))

    def _answer(self, response, extensions):
        return json.dumps(
            {
                "id": websafe_encode(self.id),
                "rawId": websafe_encode(self.id),
                "type": "public-key",
                "response": {k: websafe_encode(v) for k, v in response.items()},
                "clientExtensionResults": extensions,
            }
        )


def with_passkey(client):
    key = SoftKey()
    page = client.get("/accounts/2fa/webauthn/add/")
    options = page.context["js_data"]["creation_options"]
    data = {"name": "laptop", "credential": key.create(options), "passwordless": "on"}
    answer = client.post("/accounts/2fa/webauthn/add/", data)
    assert answer.status_code == 302, answer.context["form"].errors
    return key


def test_with_an_authenticator_app_the_password_alone_does_not_sign_in(signed_in, sign_in):
    secret = with_totp(signed_in)
    client = Client()
    assert sign_in(client, "alice").url == "/accounts/2fa/authenticate/"
    assert "_auth_user_id" not in client.session
    page = client.get("/accounts/2fa/authenticate/").content.decode()
    assert " style=" not in page
    wrong = client.post("/accounts/2fa/authenticate/", {"code": "000000"})
    assert wrong.status_code == 200
    assert client.post("/accounts/2fa/authenticate/", {"code": code_of(secret)}).status_code == 302
    assert "_auth_user_id" in client.session


def test_guessing_the_code_is_stopped(signed_in, sign_in):
    secret = with_totp(signed_in)
    client = Client()
    sign_in(client, "alice")
    for _n in range(6):
        client.post("/accounts/2fa/authenticate/", {"code": "000000"})
    client.post("/accounts/2fa/authenticate/", {"code": code_of(secret)})
    assert "_auth_user_id" not in client.session


def test_the_secret_is_encrypted_at_rest_and_survives_a_key_change(signed_in, settings, sign_in):
    secret = with_totp(signed_in)
    assert secret not in str(list(Authenticator.objects.values()))
    old = settings.SECRET_KEY
    settings.SECRET_KEY = "another-key-that-is-long-enough-for-every-check"
    settings.SECRET_KEY_FALLBACKS = [old]
    client = Client()
    sign_in(client, "alice")
    client.post("/accounts/2fa/authenticate/", {"code": code_of(secret)})
    assert "_auth_user_id" in client.session


def test_a_recovery_code_works_once(signed_in, sign_in):
    with_totp(signed_in)
    signed_in.post("/accounts/2fa/recovery-codes/generate/")
    listed = signed_in.get("/accounts/2fa/recovery-codes/").context["unused_codes"]
    states = []
    for _n in range(2):
        client = Client()
        sign_in(client, "alice")
        client.post("/accounts/2fa/authenticate/", {"code": listed[0]})
        states.append("_auth_user_id" in client.session)
    assert states == [True, False]


def test_a_passkey_is_a_second_factor(signed_in, sign_in):
    key = with_passkey(signed_in)
    client = Client()
    assert sign_in(client, "alice").url == "/accounts/2fa/authenticate/"
    page = client.get("/accounts/2fa/authenticate/")
    credential = key.get(page.context["js_data"]["request_options"])
    client.post("/accounts/2fa/authenticate/", {"credential": credential})
    assert "_auth_user_id" in client.session


def test_a_passkey_signs_in_alone_and_a_foreign_one_does_not(signed_in):
    key = with_passkey(signed_in)
    for signer, expected in ((key, True), (SoftKey(), False)):
        signer.user = key.user
        client = Client()
        options = client.get(
            "/accounts/2fa/webauthn/login/", headers={"Accept": "application/json"}
        ).json()["request_options"]
        client.post("/accounts/2fa/webauthn/login/", {"credential": signer.get(options)})
        assert ("_auth_user_id" in client.session) is expected


@pytest.mark.parametrize(
    "path",
    [
        "/accounts/2fa/",
        "/accounts/2fa/totp/activate/",
        "/accounts/2fa/webauthn/add/",
        "/accounts/2fa/webauthn/",
    ],
)
def test_the_pages_have_no_inline_script_and_name_their_state(signed_in, path):
    page = signed_in.get(path).content.decode()
    assert " style=" not in page
    for tag in page.split("<script")[1:]:
        assert "src=" in tag.split(">")[0] or 'type="application/json"' in tag.split(">")[0]


def test_the_security_page_says_what_is_on(signed_in):
    assert b"Off" in signed_in.get("/settings/security").content
    with_totp(signed_in)
    assert b"Authenticator app." in signed_in.get("/settings/security").content
