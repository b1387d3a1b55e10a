"""Credentials of every kind, stored as a manager does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.common.conftest import serve  # noqa: F401 - a fixture
from tests.credentials import samples

PATIENT_S = 60.0  # for a store of this machine, which others use too


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test fails because a store on loopback was asked while the machine stood still."""
    from credentials.probe import hosts, stores

    for module in (stores, hosts, stores, hosts, stores, hosts):
        monkeypatch.setattr(module, "SECONDS", PATIENT_S)


@pytest.fixture
def keep(project: Any, alice: Any, principal: Any) -> Callable[..., Any]:
    """Store one: ``keep("s3")`` in the project, ``keep("s3", own=bob)`` for a person."""
    from credentials.services import Label, credential_add

    def store(kind: str, name: str = "", *, own: Any = None, **more: Any) -> Any:
        label = Label(name or f"my {kind}", usable_by=more.pop("usable_by", "members"))
        return credential_add(
            principal=principal(own or alice),
            project=None if own else project,
            kind=kind,
            label=label,
            fields=samples.fields(kind, **more),
        )

    return store


@pytest.fixture
def ask(alice: Any, principal: Any) -> Callable[[Any], tuple[bool | None, str]]:
    """Test one, and look at everything that was said for its secrets."""

    from credentials.probe import credential_test
    from events.models import Event

    def test(row: Any) -> tuple[bool | None, str]:
        found = credential_test(principal=principal(alice), credential=row)
        row.refresh_from_db()
        assert (row.test_ok, row.test_sentence) == (found.ok, found.message)
        for secret in samples.secrets_of(row.kind):
            assert not any(form in found.message for form in samples.spelled(secret))
            assert secret not in repr(list(Event.objects.values()))
        for word in ("Signature", "X-Amz", "Authorization", "Bearer", "Traceback", "http://127"):
            assert word not in found.message
        return found.ok, found.message

    return test


@pytest.fixture
def store(serve: Any, keep: Any, settings: Any) -> Callable[..., Any]:  # noqa: F811 - a fixture
    """A credential of a store on loopback that answers as told; it is in ``.server``."""

    def make(answer: Any, **more: Any) -> Any:
        server = serve(answer, host="127.0.0.1")
        settings.BERTH_INSECURE_STORES = [f"127.0.0.1:{server.port}"]
        endpoint = f"http://127.0.0.1:{server.port}"
        row = keep("s3-compatible", endpoint=endpoint, **more)
        row.server = server
        return row

    return make
