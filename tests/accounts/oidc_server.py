"""A real OpenID provider in a process of its own, which can be told to lie.

``python oidc_server.py`` prints its port. The honest part is oidc-provider-mock; ``PUT /lies``
changes what it answers: claims of the id_token, its key or algorithm, userinfo, tokens,
the discovery document. ``renewed``: claims of the id_token that a renewal brings. ``rotate``: each refresh token is good for once; ``lost``: it does as it was
asked, and its answer does not arrive.
"""

import json
import os
import secrets
import time
import warnings
from dataclasses import replace

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
warnings.simplefilter("ignore")

import flask  # noqa: E402
import jwt  # noqa: E402
import oidc_provider_mock  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: E402
from oidc_provider_mock._storage import storage  # noqa: E402
from werkzeug.serving import make_server  # noqa: E402

LIES: dict = {}
FOREIGN = rsa.generate_private_key(public_exponent=65537, key_size=2048)
app = oidc_provider_mock.app()


@app.put("/lies")
def lies():
    LIES.clear()
    LIES.update(flask.request.get_json())
    return "", 204


@app.before_request
def broken():
    if flask.request.path == "/oauth2/token" and "status" in LIES:
        return LIES.get("body", {"error": "invalid_grant"}), LIES["status"]
    return None


@app.after_request
def lie(response):
    path = flask.request.path
    if path == "/oauth2/token" and response.status_code == 200:
        _rotate(response)
        if LIES.get("lost"):
            return flask.make_response("gone", 502)
    if response.status_code != 200 or not LIES or "body" in LIES:
        return response
    if path == "/oauth2/token":
        _change(response, _tokens)
    elif path == "/userinfo":
        _change(response, lambda d: d.update(LIES.get("userinfo", {})))
    elif path == "/.well-known/openid-configuration":
        _change(response, lambda d: d.update(LIES.get("config", {})))
    return response


def _rotate(response):
    old = flask.request.form.get("refresh_token", "")
    known = storage.get_refresh_token(old)
    if not LIES.get("rotate") or known is None:
        return
    storage.remove_refresh_token(old)
    fresh = secrets.token_urlsafe(24)
    storage.store_refresh_token(replace(known, token=fresh))
    _change(response, lambda d: d.update(refresh_token=fresh))


def _change(response, how):
    data = json.loads(response.get_data())
    how(data)
    response.set_data(json.dumps(data))


def _tokens(data):
    if "renewed" in LIES and flask.request.form.get("grant_type") == "refresh_token":
        data["id_token"] = _renewed(LIES["renewed"])
    if "id_token" in data:
        data["id_token"] = _id_token(data["id_token"])
    data.update(LIES.get("tokens", {}))
    for name in [k for k, v in data.items() if v is None]:
        del data[name]


def _renewed(claims):
    at = int(time.time())
    issuer = flask.request.host_url.rstrip("/")
    said = {"iss": issuer, "aud": "berth", "iat": at, "exp": at + 9 * 3600}
    return jwt.encode(said | claims, storage.jwk.as_pem(is_private=True), algorithm="RS256")


def _id_token(raw):
    claims = jwt.decode(raw, options={"verify_signature": False}) | LIES.get("claims", {})
    claims = {k: v for k, v in claims.items() if v is not None}
    kid = jwt.get_unverified_header(raw).get("kid")
    headers = {"kid": kid} if kid else {}
    if LIES.get("alg") == "none":
        return jwt.encode(claims, None, algorithm="none", headers=headers)
    if LIES.get("alg") == "HS256":
        return jwt.encode(claims, "x" * 64, algorithm="HS256", headers=headers)
    key = FOREIGN if LIES.get("key") == "foreign" else storage.jwk.as_pem(is_private=True)
    return jwt.encode(claims, key, algorithm="RS256", headers=headers)


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(server.port, flush=True)  # noqa: T201
    server.serve_forever()
