"""Plants a canary in every secret that the portal holds, the way people and servers make them."""

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.test import Client

from credentials.choices import EMBEDDED
from credentials.kinds import KINDS, Part
from hubapi import services
from hubapi.registry import callback_url
from tests.credentials import samples

PASSWORD = "canary-password-Yw2qPz"
ENV_VALUE = "canary-env-value-Kd83hs"
VERIFIER = "canaryverifier" + "v" * 50
SETTINGS = {
    "BERTH_OIDC_CLIENT_SECRET": "canary-oidc-Jq72ms",
    "EMAIL_HOST_PASSWORD": "canary-smtp-Pl03xc",
    "BERTH_PROXY_TOKEN": "canary-proxy-Tn55vb",
    "BERTH_METRICS_TOKEN": "canary-metrics-Re91zk",
    "BERTH_GATE_TOKEN": "canary-gate-Wd37kf",
    "SECRET_KEY": "canary-secret-key-Ux64ow-that-is-long-enough-for-all",
}


@dataclass
class Planted:
    """Where the canaries are."""

    secrets: dict[str, str] = field(default_factory=dict)
    workspace: Any = None
    job: str = ""  # its id
    api_token: str = ""


def plant(*, owner: Any, project: Any, launch: Any, settle: Any, settings: Any) -> Planted:
    settings.BERTH_OIDC_ISSUER, settings.BERTH_OIDC_CLIENT_ID = "https://idp.example.org", "berth"
    for name, value in SETTINGS.items():
        setattr(settings, name, value)
    done = Planted(secrets=dict(SETTINGS))
    owner.set_password(PASSWORD)
    owner.save()
    done.secrets["password"] = PASSWORD
    browser = _signed_in(owner)
    _totp(owner, done)
    _api_token(browser, done)
    _invitation(owner, project, done)
    _credential(browser, project, done)
    given = _every_kind(browser, project, done)
    _kubeconfig(settings, done)
    _terminal(browser, done)
    row = launch(owner, env={"CANARY": ENV_VALUE}, credentials=given)
    _by_api(browser, project)
    done.job = _job(browser, project)
    _endpoint(browser, project, done)
    settle(row)
    done.workspace = row
    done.secrets["env"] = ENV_VALUE
    for purpose in ("server", "service"):
        done.secrets[f"{purpose}-token"] = services.derive(purpose, row.uid, row.launch)
    _visit(browser, row, done)
    return done


def _signed_in(user: Any) -> Client:
    browser = Client()
    answer = browser.post("/accounts/login/", {"login": user.username, "password": PASSWORD})
    assert answer.status_code == 302, answer.content
    return browser


def _kubeconfig(settings: Any, done: Planted) -> None:
    """A cluster, attached by the form as an operator does it."""
    from accounts.models import User
    from common import sealing
    from tests.clusters import kubeconfigs

    public, private = sealing.new_pair()
    settings.BERTH_CLUSTER_PUBLIC_KEY = public
    settings.BERTH_CLUSTER_PRIVATE_KEY = [private]
    who = User(username="canary-operator", platform_role="operator")
    who.set_password(PASSWORD)
    who.save()
    form = {"name": "Canary", "kubeconfig": kubeconfigs.good()}
    answer = _signed_in(who).post("/console/clusters/attach", form)
    assert answer.status_code == 302, answer.content
    done.secrets["kubeconfig"] = kubeconfigs.CANARY
    done.secrets["cluster-key"] = private


def _endpoint(browser: Client, project: Any, done: Planted) -> None:
    """An endpoint of the same variable, and a key that is shown once."""
    answer = browser.post(
        f"/api/v1/projects/{project.slug}/endpoints",
        json.dumps({"name": "canary", "command": ["true"], "env": {"CANARY": ENV_VALUE}}),
        content_type="application/json",
        headers={"Idempotency-Key": "canary-endpoint"},
    )
    assert answer.status_code == 202, answer.content
    at = f"/projects/{project.slug}/endpoints/{answer.json()['id']}/keys"
    made = browser.post(
        f"/api/v1{at}", json.dumps({"name": "api"}), content_type="application/json"
    )
    done.secrets["endpoint-key"] = made.json()["key"]
    shown = browser.post(f"{at}/", {"name": "page", "days": "30"})
    secret = re.search(r"bep_[A-Za-z0-9]{32}", shown.content.decode())
    assert secret is not None
    done.secrets["endpoint-key-of-a-page"] = secret[0]


def _totp(owner: Any, done: Planted) -> None:
    from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
    from allauth.mfa.totp.internal import auth
    from allauth.mfa.utils import decrypt

    done.secrets["totp"] = auth.generate_totp_secret()
    auth.TOTP.activate(owner, done.secrets["totp"])
    codes = RecoveryCodes.activate(owner)
    done.secrets["recovery-seed"] = decrypt(codes.instance.data["seed"])


def _api_token(browser: Client, done: Planted) -> None:
    """Made by requests that say they may be repeated: the answer must not be remembered."""
    twice = [
        browser.post(
            "/api/v1/me/tokens",
            json.dumps({"name": "canary"}),
            content_type="application/json",
            headers={"Idempotency-Key": "canary-key"},
        )
        for _ in range(2)
    ]
    done.api_token = twice[0].json()["token"]
    done.secrets |= {f"api-token-{n}": answer.json()["token"] for n, answer in enumerate(twice)}


def _by_api(browser: Client, project: Any) -> None:
    """A launch that may be repeated: the answer, with the environment, is remembered."""
    answer = browser.post(
        f"/api/v1/projects/{project.slug}/workspaces",
        json.dumps({"preset": "jupyterlab", "name": "again", "env": {"CANARY": ENV_VALUE}}),
        content_type="application/json",
        headers={"Idempotency-Key": "canary-launch"},
    )
    assert answer.status_code in {201, 202}, answer.content


def _job(browser: Client, project: Any) -> str:
    """A job of the same variable, which may be repeated; the engine runs it."""
    answer = browser.post(
        f"/api/v1/projects/{project.slug}/jobs",
        json.dumps({"command": ["true"], "env": {"CANARY": ENV_VALUE}}),
        content_type="application/json",
        headers={"Idempotency-Key": "canary-job"},
    )
    assert answer.status_code == 202, answer.content
    return str(answer.json()["id"])


def _invitation(owner: Any, project: Any, done: Planted) -> None:
    from accounts.principal import Principal
    from projects.services.invitations import invitation_create, invitation_link

    row = invitation_create(
        principal=Principal(user=owner), project=project, email="canary@example.org"
    )
    link = invitation_link(row)
    done.secrets["invitation"] = link.rstrip("/").rpartition("/")[2]
    path = urlsplit(link).path
    guest = Client(enforce_csrf_checks=True)
    assert guest.get(path).status_code == 302  # his session is in the database now
    assert guest.get("/invitations/accept").status_code == 200
    assert guest.post(path).status_code in {403, 405}
    assert Client().get(path[:-3] + "xx/").status_code == 404


def _credential(browser: Client, project: Any, done: Planted) -> None:
    """Stored by the API and replaced by the page, both with answers that may be remembered."""
    base = f"/api/v1/projects/{project.slug}/credentials"
    done.secrets |= {"registry": "canary-registry-Vb61nm", "registry-2": "canary-registry-Ht40qs"}
    body = {
        "name": "canary",
        "host": "registry.example.com",
        "username": "robot",
        "password": done.secrets["registry"],
    }
    made = browser.post(
        base,
        json.dumps(body),
        content_type="application/json",
        headers={"Idempotency-Key": "canary-credential"},
    )
    assert made.status_code == 201, made.content
    page = f"/projects/{project.slug}/credentials/{made.json()['id']}/"
    form = {"username": "robot", "password": done.secrets["registry-2"]}
    assert browser.post(page, {**form, "username": "a:b"}).status_code == 422
    assert browser.post(page, form).status_code == 302
    wrong = browser.post(base, json.dumps({**body, "host": "a b"}), content_type="application/json")
    assert wrong.status_code == 400


def _every_kind(browser: Client, project: Any, done: Planted) -> list[str]:
    """Of the project and of the person, by API and by page, good and wrong, replaced and tested.

    Return those that work can be given.
    """
    kept: list[str] = []
    given: list[str] = []
    shelves = (
        (f"/api/v1/projects/{project.slug}/credentials", f"/projects/{project.slug}/credentials/"),
        ("/api/v1/me/credentials", "/settings/credentials"),
    )
    for api, page in shelves:
        for kind in samples.KINDS:
            if kind == "registry":
                continue
            body = {"kind": kind, "name": f"canary {kind}", **samples.fields(kind)}
            made = browser.post(
                api,
                json.dumps(body),
                content_type="application/json",
                headers={"Idempotency-Key": f"canary-{kind}-{len(kept)}"},
            )
            assert made.status_code == 201, made.content
            kept.append(made.json()["id"])
            if kind in EMBEDDED:
                given.append(kept[-1])
            one = f"{api}/{kept[-1]}"
            parts = KINDS[kind].names(Part.SECRET)
            again = json.dumps({n: v for n, v in samples.fields(kind).items() if n in parts})
            answer = browser.post(f"{one}/rotate", again, content_type="application/json")
            assert answer.status_code == 200, answer.content
            for wrong in ({**body, "name": ""}, {**body, "name": "x", "profile": "x"}):
                refused = browser.post(api, json.dumps(wrong), content_type="application/json")
                assert refused.status_code == 400
                form = {name: str(value) for name, value in wrong.items()}
                assert browser.post(page, form).status_code in {200, 302, 422}
            names = {f"{kind}-{n}": s for n, s in enumerate(samples.secrets_of(kind))}
            done.secrets |= names
        browser.post(f"{one}/test", "{}", content_type="application/json")
    return given


def _terminal(browser: Client, done: Planted) -> None:
    terminal = Client()
    start = terminal.post("/api/v1/auth/device", "{}", content_type="application/json").json()
    done.secrets |= {"device-code": start["device_code"], "user-code": start["user_code"]}
    browser.get(f"/device?code={start['user_code']}")
    from accounts.models import User
    from accounts.principal import Principal
    from accounts.services.sessions import device_approve

    owner = User.objects.get(pk=browser.session["_auth_user_id"])
    device_approve(who=Principal(user=owner), user_code=start["user_code"])
    answer = terminal.post(
        "/api/v1/auth/device/token",
        json.dumps({"device_code": start["device_code"]}),
        content_type="application/json",
        headers={"Idempotency-Key": "canary-terminal"},
    )
    assert answer.status_code in {200, 201}, answer.content
    done.secrets["terminal-token"] = next(
        v for v in answer.json().values() if str(v).startswith("berth_") and len(str(v)) > 20
    )
    waiting = terminal.post("/api/v1/auth/device", "{}", content_type="application/json").json()
    done.secrets |= {"device-code-2": waiting["device_code"], "user-code-2": waiting["user_code"]}


def _visit(browser: Client, row: Any, done: Planted) -> None:
    """The way of a browser into a workspace: code, then the token that its server gets."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest())
    asked = {
        "client_id": f"ws-{row.short_id}",
        "redirect_uri": callback_url(row.short_id),
        "response_type": "code",
        "state": "s",
        "code_challenge": challenge.rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    for name in ("code-open", "code-used"):
        away = browser.get("/hub/api/oauth2/authorize", asked)
        assert away.status_code == 302, away.content
        done.secrets[name] = parse_qs(urlsplit(away["Location"]).query)["code"][0]
    answer = Client().post(
        "/hub/api/oauth2/token",
        {
            "client_id": asked["client_id"],
            "client_secret": done.secrets["server-token"],
            "grant_type": "authorization_code",
            "code": done.secrets["code-used"],
            "redirect_uri": asked["redirect_uri"],
            "code_verifier": VERIFIER,
        },
    )
    assert answer.status_code == 200, answer.content
    done.secrets["visitor-token"] = answer.json()["access_token"]
    done.secrets["verifier"] = VERIFIER
