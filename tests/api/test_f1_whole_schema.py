"""F1: whatever is sent to any operation, the answer is never a 5xx and always as documented."""

from __future__ import annotations

import itertools
import os
from datetime import timedelta
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation.meta import TestPhase
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.architecture import world

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.long(
        "every operation with drawn bodies; bad input of each: notebooks/test_api.py, loaders/test_api.py, projects/test_projects_api.py"
    ),
]

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
DEEP = os.environ.get("BERTH_TEST_DEEP") == "yes"  # minutes more: all that can be derived
EXAMPLES = 100 if DEEP else 12  # for each operation; twelve go through every branch of parsing

OF_MEMBERS = ("/api/v1/projects", "/api/v1/me")  # the others are the operators'

turns = itertools.cycle([True, True, False])  # ids that exist, mostly
schema = schemathesis.openapi.from_dict(Client().get("/api/v1/schema?format=json").json())
tried: set[tuple[str, str]] = set()


@schema.hook
def filter_case(_context: schemathesis.HookContext, case: schemathesis.Case) -> bool:
    """Keep one of the derived cases for each way in which a field can be wrong or right.

    A body of twenty fields has hundreds, most of them the same mistake with another value.
    """
    meta = case.meta
    if DEEP or meta is None or meta.phase.name is not TestPhase.COVERAGE:
        return True
    way = (case.operation.label, meta.phase.data.description)  # names the field and what is wrong
    if way in tried:
        return False
    tried.add(way)
    return True


def send(case: schemathesis.Case, secret: str) -> httpx.Response:
    """Send the case as it stands on the wire, in this thread and its transaction."""
    wire = requests.Request(**case.as_transport_kwargs(base_url="http://localhost")).prepare()
    headers = {k: v for k, v in wire.headers.items() if k.lower() != "content-length"}
    headers["Authorization"] = f"Bearer {secret}"
    answer = Client(raise_request_exception=False).generic(
        wire.method,
        wire.path_url,
        wire.body or b"",
        content_type=headers.pop("Content-Type", ""),
        headers=headers,
    )
    body = b"" if answer.streaming else answer.content
    said = {k: v if isinstance(v, bytes) else v.encode("latin-1") for k, v in headers.items()}
    request = httpx.Request(wire.method, wire.url, headers=said)
    response = httpx.Response(
        answer.status_code, headers=dict(answer.headers), content=body, request=request
    )
    response.elapsed = timedelta()
    return response


class RollBack(Exception):  # noqa: N818 - no error
    """Ends an example: the next one finds the world as it was."""


@pytest.fixture
def real_ids(project: Any, alice: Any, principal: Any, db: None) -> dict[str, str]:
    """Ids that exist, so that operations get past their look-up."""
    from clusters import registry
    from credentials.services import Label, credential_add
    from notebooks.services import ensure_default_presets
    from tests.support.workspaces import workspace_launch

    registry.reset()
    ensure_default_presets()
    row = workspace_launch(
        principal=principal(alice), project=project, preset=None, said={"name": "lab"}
    )
    kept = credential_add(
        principal=principal(alice),
        project=project,
        kind="registry",
        label=Label("ours"),
        fields={"host": "registry.example.com", "username": "robot", "password": "secret"},
    )
    own = credential_add(
        principal=principal(alice),
        project=None,
        kind="generic",
        label=Label("mine"),
        fields={"values": {"TOKEN": "secret"}},
    )
    return {
        **world.build(project, alice, mark="-f1"),
        "project": project.slug,
        "workspace": row.short_id,
        "username": "bob",
        "credential": str(kept.uid),
        "own": str(own.uid),
    }


def with_ids(case: schemathesis.Case, ids: dict[str, str]) -> dict[str, Any]:
    """Return the parameters of its path with ids that exist."""
    drawn = case.path_parameters or {}
    known = {**ids, "uid": world.meant_by_uid(case.path, ids)}
    return {**drawn, **{name: value for name, value in known.items() if name in drawn}}


@pytest.fixture
def secrets_of(operator: Any, alice: Any, principal: Any) -> dict[str, str]:
    from accounts.services.tokens import token_create

    return {u.username: token_create(who=principal(u), name="f1")[1] for u in (operator, alice)}


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
def test_f1_no_input_breaks_an_operation_and_answers_are_as_documented(
    case: schemathesis.Case,
    real_ids: dict[str, str],
    secrets_of: dict[str, str],
    operator: Any,
    alice: Any,
) -> None:
    if next(turns):
        case.path_parameters = with_ids(case, real_ids)
    user = alice if case.path.startswith(OF_MEMBERS) else operator
    cache.clear()
    try:
        with transaction.atomic():
            response = send(case, secrets_of[user.username])
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                case.validate_response(response, checks=CHECKS)
            raise RollBack  # noqa: TRY301 - ends the example
    except RollBack:
        pass
