"""Variables of workspaces in the database: sealed, sealed again, and read as they were before."""

import json
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from credentials import rekey
from credentials.sealing import Sealed, sealed
from notebooks.models import Workspace
from notebooks.reconciler import WorkspaceReconciler
from tests.notebooks.cluster_world import BASE

CANARY = "canary-env-Wm37xb"
ENV = {"WANDB_KEY": CANARY, "EMPTY": "", "WORDS": "日本語 \"'%s"}


def stored() -> list[str]:
    """What lies in the column, oldest row first."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT CAST(env AS text) FROM notebooks_workspace ORDER BY workload_ptr_id")
        return [text for (text,) in cursor.fetchall()]


def as_before(env: dict[str, str], *rows: Workspace) -> None:
    """Write it as a version did that did not seal."""
    with connection.cursor() as cursor:
        for row in rows:
            cursor.execute(
                "UPDATE notebooks_workspace SET env = %s WHERE workload_ptr_id = %s",
                [json.dumps(env), row.pk],
            )


def migrate() -> None:
    import_module("notebooks.migrations.0006_seal_env").seal(apps, None)


def cut_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Kill what seals before the transaction number ``steps`` + 1."""
    real, begun = rekey.transaction.atomic, []

    def atomic(*args: Any) -> Any:
        if len(begun) == steps:
            raise KeyboardInterrupt
        begun.append(1)
        return real(*args)

    monkeypatch.setattr(rekey.transaction, "atomic", atomic)


def test_a_value_is_sealed_in_the_row_and_whole_for_its_process(launch, alice):
    row = launch(alice, env=ENV)
    (text,) = stored()
    assert CANARY not in text
    assert "WANDB_KEY" not in text
    row = Workspace.objects.get(pk=row.pk)
    assert CANARY not in repr(row.env)
    assert row.env == ENV
    assert ENV.items() <= WorkspaceReconciler().spec_of(row).env.items()
    row.save()  # with what it was read with
    assert stored() == [text]


def test_a_row_of_a_version_that_did_not_seal_is_read_and_sealed_by_the_next_edit(
    launch, alice, principal, api
):
    row = launch(alice, env={"A": "1"})
    as_before(ENV, row)
    assert api(alice, "GET", f"{BASE}/{row.short_id}").json()["spec"]["env"] == ENV
    edited = api(alice, "PATCH", f"{BASE}/{row.short_id}", {"env": {**ENV, "B": "2"}})
    assert edited.json()["spec"]["env"] == {**ENV, "B": "2"}
    assert CANARY not in stored()[0]


def test_the_housekeeping_seals_what_an_older_process_wrote(launch, alice):
    from portal.server import duties

    row = launch(alice, env={"A": "1"})
    as_before(ENV, row)
    duties.tidy()
    assert CANARY not in stored()[0]
    assert Workspace.objects.get().env == ENV


def test_a_migration_that_was_killed_goes_on_with_the_rest(launch, alice, monkeypatch):
    rows = [launch(alice) for _ in range(5)]
    as_before(ENV, *rows[:4])
    monkeypatch.setattr(rekey, "STEP", 2)
    with monkeypatch.context() as patch:
        cut_after(patch, 1)
        with pytest.raises(KeyboardInterrupt):
            migrate()
    assert [CANARY in text for text in stored()] == [False, False, True, True, False]
    first = stored()[:2]
    migrate()
    assert CANARY not in "".join(stored())
    assert stored()[:2] == first
    assert stored()[4] == "{}"
    assert [row.env for row in Workspace.objects.order_by("pk")] == [ENV] * 4 + [{}]


def test_without_a_key_the_migration_leaves_all_and_a_launch_with_variables_is_refused(
    launch, alice, post, settings
):
    row = launch(alice)
    as_before(ENV, row)
    settings.BERTH_CREDENTIAL_KEYS = []
    migrate()
    assert Workspace.objects.get().env == ENV
    refused = post({"preset": "jupyterlab", "env": {"A": "1"}})
    assert refused.status_code == 503
    assert "BERTH_CREDENTIAL_KEYS" in refused.json()["detail"]
    assert post({"preset": "jupyterlab"}).status_code in {201, 202}


def test_d11_a_rotation_seals_variables_again_and_can_be_cut_anywhere(
    launch, alice, settings, monkeypatch
):
    settings.BERTH_CREDENTIAL_KEYS = ["old"]
    rows = [launch(alice, env=ENV) for _ in range(5)]
    as_before(ENV, rows[4])
    settings.BERTH_CREDENTIAL_KEYS = ["new", "old"]
    monkeypatch.setattr(rekey, "STEP", 2)
    with monkeypatch.context() as patch:
        empty = 1 + [model for model, _ in rekey.columns()].index(Workspace)  # one: credentials
        cut_after(patch, empty + 1)
        with pytest.raises(KeyboardInterrupt):
            rekey.again()
    assert rekey.left() == 3
    before = dict(Workspace.objects.values_list("pk", "generation"))
    assert rekey.again() == (3, 0)
    assert (rekey.left(), rekey.again()) == (0, (0, 0))
    settings.BERTH_CREDENTIAL_KEYS = ["new"]
    assert rekey.locked() == 0
    assert [row.env for row in Workspace.objects.all()] == [ENV] * 5
    assert dict(Workspace.objects.values_list("pk", "generation")) == before


@pytest.mark.parametrize("newer", ["sealed", "plain"])
def test_what_somebody_wrote_while_the_old_value_was_sealed_stays(
    launch, alice, monkeypatch, newer
):
    row = launch(alice)
    as_before(ENV, row)

    def slow(mapping: Any) -> Sealed:
        if newer == "sealed":
            Workspace.objects.filter(pk=row.pk).update(env=sealed({"A": "newer"}))
        else:
            as_before({"A": "newer"}, row)
        return sealed(mapping)

    with monkeypatch.context() as patch:
        patch.setattr(rekey, "sealed", slow)
        assert rekey.seal_plain() == 0
    assert Workspace.objects.get().env == {"A": "newer"}
    assert rekey.seal_plain() == (newer == "plain")
    assert "newer" not in stored()[0]


def test_d11_a_lost_key_keeps_nobody_from_listing_stopping_and_deleting(
    launch, alice, settle, api, text, settings
):
    settings.BERTH_CREDENTIAL_KEYS = ["old"]
    row = settle(launch(alice, env=ENV))
    settings.BERTH_CREDENTIAL_KEYS = ["another"]
    assert (rekey.locked(), rekey.again()) == (1, (0, 1))
    address = f"{BASE}/{row.short_id}"
    assert row.name in text(alice, f"/projects/{row.project.slug}/workspaces/")
    assert api(alice, "GET", BASE).status_code == 200
    assert api(alice, "GET", address).json()["spec"]["env"] is None
    assert api(alice, "POST", f"{address}/stop").status_code == 202
    row = settle(row)
    assert row.phase == "stopped"
    assert api(alice, "POST", f"{address}/start").status_code == 503  # never without its variables
    assert settle(row).phase == "stopped"
    assert api(alice, "DELETE", address).status_code == 202
    settings.BERTH_CREDENTIAL_KEYS = ["old"]
    assert Workspace.objects.get(pk=row.pk).env == ENV


def test_a_text_that_sealed_a_credential_opens_no_variables(launch, alice):
    from uuid import uuid4

    from common.errors import Unavailable
    from credentials.sealing import seal

    held, key = seal(uuid4(), {"password": CANARY})
    with pytest.raises(Unavailable):
        dict(Sealed(f"{key}.{held}"))
