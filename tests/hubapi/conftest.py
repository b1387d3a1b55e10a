"""A workload that is only told of: what the Hub side needs to know, changed at will."""

import base64
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
from django.test import Client as Browser

from common.ids import new_short_id, new_uid
from hubapi import registry, services
from hubapi.registry import AccessLevel, WorkloadInfo, WorkloadLookup, callback_url
from hubapi.services import LaunchCredentials
from runtime.protocol import Phase

VERIFIER = "v" * 64
CHALLENGE = (
    base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
)


@dataclass
class Lookup(WorkloadLookup):
    infos: dict[UUID, WorkloadInfo] = field(default_factory=dict)
    guests: dict[UUID, list[Any]] = field(default_factory=dict)

    def by_uid(self, uid: UUID) -> WorkloadInfo | None:
        return self.infos.get(uid)

    def by_short_id(self, short_id: str) -> WorkloadInfo | None:
        return next((i for i in self.infos.values() if i.short_id == short_id), None)

    def access(self, user: Any, uid: UUID) -> AccessLevel:
        info = self.infos.get(uid)
        if info is None:
            return AccessLevel.NONE
        if info.owner_pk == user.pk:
            return AccessLevel.OWNER
        return AccessLevel.VISITOR if user in self.guests.get(uid, []) else AccessLevel.NONE

    def visitors(self, uid: UUID) -> list[Any]:
        return self.guests.get(uid, [])

    def openable_by(self, user: Any) -> list[WorkloadInfo]:
        return [
            i
            for i in self.infos.values()
            if i.phase == Phase.RUNNING and self.access(user, i.uid) != AccessLevel.NONE
        ]

    def share(self, uid: UUID, user: Any) -> None:
        self.guests.setdefault(uid, []).append(user)

    def unshare(self, uid: UUID, user: Any) -> None:
        self.guests[uid].remove(user)
        services.revoke_visitor(uid, user)

    def change(self, uid: UUID, **changes: Any) -> WorkloadInfo:
        self.infos[uid] = replace(self.infos[uid], **changes)
        return self.infos[uid]


@pytest.fixture
def lookup() -> Iterator[Lookup]:
    made = Lookup()
    registry.register(made)
    yield made
    registry.unregister(made)


def owned_by(owner: Any) -> dict[str, Any]:
    return {
        "owner_pk": owner.pk,
        "owner_uid": owner.uid,
        "owner_username": owner.username,
        "owner_label": owner.label,
    }


def describe(
    owner: Any, project: Any, *, name: str = "JupyterLab", phase: Phase = Phase.RUNNING
) -> WorkloadInfo:
    short_id = new_short_id()
    return WorkloadInfo(
        uid=new_uid(),
        kind="workspace",
        short_id=short_id,
        name=name,
        **owned_by(owner),
        project_uid=project.uid,
        phase=phase,
        launch=1,
        page_url=f"/projects/vision/workspaces/{short_id}",
        public_url=registry.workload_url(short_id),
        resume_url=f"/projects/vision/workspaces/{short_id}/resume",
    )


@pytest.fixture
def make_workload(lookup: Lookup, project: Any) -> Callable[..., WorkloadInfo]:
    def make(owner: Any, **extra: Any) -> WorkloadInfo:
        info = describe(owner, project, **extra)
        lookup.infos[info.uid] = info
        return info

    return make


@dataclass
class World:
    """A running workload of alice with its credentials, and what browser and server do."""

    info: WorkloadInfo
    credentials: LaunchCredentials
    owner: Any
    project: Any

    def relaunch(self, launch: int) -> LaunchCredentials:
        self.credentials = ensure(self.info, self.owner, self.project, launch)
        return self.credentials

    def query(self, **changes: str | None) -> dict[str, str]:
        wanted: dict[str, str | None] = {
            "client_id": self.credentials.client_id,
            "redirect_uri": callback_url(self.info.short_id),
            "response_type": "code",
            "state": "opaque-state",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **changes,
        }
        return {k: v for k, v in wanted.items() if v is not None}

    def authorize(self, browser: Browser, **changes: str | None) -> Any:
        return browser.get("/hub/api/oauth2/authorize", self.query(**changes))

    def code(self, browser: Browser, **changes: str | None) -> str:
        response = self.authorize(browser, **changes)
        assert response.status_code == 302, response.content[:500]
        return parse_qs(urlsplit(response["Location"]).query)["code"][0]

    def redeem(self, code: str, /, **changes: str | None) -> Any:
        form: dict[str, str | None] = {
            "client_id": self.credentials.client_id,
            "client_secret": self.credentials.api_token,
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback_url(self.info.short_id),
            "code_verifier": VERIFIER,
            **changes,
        }
        return Browser().post(
            "/hub/api/oauth2/token", {k: v for k, v in form.items() if v is not None}
        )

    def token(self, browser: Browser) -> str:
        response = self.redeem(self.code(browser))
        assert response.status_code == 200, response.content
        return response.json()["access_token"]

    def consent(self, browser: Browser, **changes: str | None) -> Any:
        form = {**self.query(**changes), "owner": str(self.info.owner_uid)}
        return browser.post("/hub/consent", form)


def ensure(info: WorkloadInfo, owner: Any, project: Any, launch: int) -> LaunchCredentials:
    return services.client_ensure(
        uid=info.uid, short_id=info.short_id, owner=owner, project=project, launch=launch
    )


@pytest.fixture
def world(make_workload: Any, alice: Any, project: Any) -> World:
    info = make_workload(alice)
    return World(info, ensure(info, alice, project, 1), alice, project)


def whoami(token: str) -> Any:
    return Browser().get("/hub/api/user", headers={"Authorization": f"token {token}"})
