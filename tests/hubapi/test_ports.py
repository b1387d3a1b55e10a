"""A web port of a container: an address and a client of its own, the same people."""

import pytest

from hubapi import oauth, registry, services
from hubapi.models import Client, NotebookToken
from hubapi.registry import AccessLevel

PORT = 7860


@pytest.fixture
def port(make_workload, alice, project):
    """A workload of alice with one port: (its info, the port's info)."""
    info = make_workload(alice)
    services.port_client_ensure(
        uid=info.uid,
        short_id=info.short_id,
        port=PORT,
        owner=alice,
        project=project,
        launch=1,
    )
    found = registry.by_short_id(f"{info.short_id}-{PORT}")
    assert found is not None
    return info, found


def test_a_port_has_its_own_address_and_its_workloads_people(port, lookup, alice, bob):
    info, found = port
    assert found.public_url == registry.workload_url(f"{info.short_id}-{PORT}")
    assert (found.parent, found.workload_uid) == (info.uid, info.uid)
    assert registry.by_uid(found.uid) == found
    assert registry.access(alice, found.uid) == AccessLevel.OWNER
    assert registry.access(bob, found.uid) == AccessLevel.NONE


def test_an_address_that_was_never_made_leads_nowhere(port):
    info, _found = port
    assert registry.by_short_id(f"{info.short_id}-9999") is None
    assert registry.by_short_id(f"{info.short_id}-{PORT}-1") is None


def test_two_ports_and_the_workload_have_different_secrets(port, alice, project):
    info, _found = port
    same = {"uid": info.uid, "short_id": info.short_id, "owner": alice, "project": project}
    made = [
        services.client_ensure(**same, launch=1),
        services.port_client_ensure(**same, port=PORT, launch=1),
        services.port_client_ensure(**same, port=9000, launch=1),
    ]
    assert len({one.client_id for one in made}) == 3
    assert len({one.api_token for one in made}) == 3


def test_a_stop_takes_every_port_along_and_a_new_start_opens_them_again(port, alice, project):
    info, found = port
    services.revoke_workload(info.uid)
    assert Client.objects.get(uid=found.uid).revoked_at is not None
    assert not NotebookToken.objects.filter(uid=found.uid, revoked_at=None).exists()
    again = services.port_client_ensure(
        uid=info.uid, short_id=info.short_id, port=PORT, owner=alice, project=project, launch=2
    )
    client = Client.objects.get(uid=found.uid)
    assert client.revoked_at is None
    assert client.secret_digest == services.digest(again.api_token)


def test_who_agreed_to_the_workload_is_not_asked_again_for_a_port(port, lookup, bob, principal):
    info, found = port
    lookup.share(info.uid, bob)
    gate = oauth.gate_for(bob, f"ws-{found.short_id}")
    assert gate is not None
    assert oauth.needs_consent(bob, gate)
    oauth.consent_give(principal=principal(bob), gate=gate)
    assert oauth.has_consented(bob, info.uid, info.owner_pk)
    assert not oauth.needs_consent(bob, gate)


def test_a_deleted_workload_leaves_nothing_of_its_ports(port):
    info, found = port
    services.forget_workload(info.uid)
    assert registry.by_uid(found.uid) is None
    assert not NotebookToken.objects.filter(uid=found.uid).exists()
