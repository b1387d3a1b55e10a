"""Signing in against a real OpenID provider in its own process."""

import html
import re

import httpx
from django.test import Client


class Provider:
    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.url, timeout=60, trust_env=False)

    def person(self, sub, **claims):
        assert self.http.put(f"/users/{sub}", json=claims).status_code == 204

    def lie(self, **lies):
        assert self.http.put("/lies", json=lies).status_code == 204

    def end_sessions(self, sub):
        assert self.http.post(f"/users/{sub}/revoke-tokens").status_code == 204

    def consent(self, where, sub):
        """Sign in at the provider as ``sub``; return the path to come back to."""
        answer = self.http.post(where, data={"sub": sub})
        assert answer.status_code == 302, answer.text
        back = answer.headers["location"]
        assert back.startswith("http://testserver/accounts/oidc/callback/")
        return back.removeprefix("http://testserver")


def start(client, next_url=""):
    """Press the button; return the address at the provider."""
    answer = client.post(f"/accounts/oidc/login/?process=login&next={next_url}")
    assert answer.status_code == 200
    return forwarded_to(answer)


def forwarded_to(answer):
    found = re.search(r"content=\"0;URL='([^']+)'\"", answer.content.decode())
    return html.unescape(found.group(1))


def sign_in(provider, sub="dora-1", client=None, **kwargs):
    client = client or Client()
    back = provider.consent(start(client, **kwargs), sub)
    return client, client.get(back)


def signed_in(client):
    return "_auth_user_id" in client.session
