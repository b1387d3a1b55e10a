"""The fetch of an image as it is told: how large, since when, and what helps when it fails."""

import pytest
import time_machine

from clusters.registry import driver_for
from common.clock import now
from images.models import ImageFacts
from notebooks.models import Workspace
from runtime.protocol import Observation, Seen
from runtime.reasons import Reason
from runtime.workload_state import ReconcileContext
from tests.notebooks.cluster_world import attach

DIGEST = "sha256:" + "5" * 64
SINCE = 1_795_240_800.0


@pytest.fixture
def gpu(presets, monkeypatch):
    from clusters.services import ensure_local_cluster, health_refresh

    ensure_local_cluster()
    health_refresh(key="local")
    return attach(monkeypatch)


@pytest.fixture
def row(as_user, alice, project, gpu, settle):
    body = {"kind": "container", "image": "registry.example.org/team/train:1.2", "command": ["x"]}
    answer = as_user(alice).post(
        "/api/v1/projects/vision/workspaces", body, content_type="application/json"
    )
    made = Workspace.objects.get(short_id=answer.json()["id"])
    driver_for("gpu").script(str(made.uid), never_ready=True)
    made = settle(made, rounds=8)  # one that never gets ready is asked for ever
    Workspace.objects.filter(pk=made.pk).update(image_digest=DIGEST)
    made.refresh_from_db()
    return made


@pytest.fixture
def pulls(row):
    """Write what a step over a fetch leaves in the row."""

    def write(size=None):
        pull = {"since": SINCE, "bytes": size}
        row.external_ref = {**row.external_ref, "pull": pull}
        row.reason, row.message = Reason.PULLING, ""
        row.save(update_fields=["external_ref", "reason", "message"])
        return row

    return write


def learn(size, architecture="amd64"):
    ImageFacts.objects.create(
        digest=DIGEST, architecture=architecture, size_bytes=size, seen_at=now()
    )


def seen(row, **detail):
    return Observation(uid=str(row.uid), seen=Seen.STARTING, launch=row.launch, detail=detail)


def page_of(row, client):
    return client.get(f"/projects/vision/workspaces/{row.short_id}/").content.decode()


def test_the_engine_notes_since_when_and_asks_the_size_once_for_each_try(row):
    from notebooks.reconciler import WorkspaceReconciler

    learn(2_000_000_000)
    learn(4_509_715_661, "arm64")
    asked = []

    def size_of(given):
        asked.append(given)
        return WorkspaceReconciler().image_bytes(given)

    state = ReconcileContext(row, {})
    for since in (SINCE, SINCE, SINCE + 60):
        state.note_pull(seen(row, pull={"since": since}), size_of)
    assert state.ref["pull"] == {"since": SINCE + 60, "bytes": 4_509_715_661}
    assert len(asked) == 2
    state.note_pull(seen(row, pull=None), size_of)
    assert "pull" not in state.ref


def test_an_image_that_nobody_looked_up_has_no_size(row):
    from notebooks.reconciler import WorkspaceReconciler

    assert WorkspaceReconciler().image_bytes(row) is None


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (4_509_715_661, "Pulling the image (4.2\N{NO-BREAK SPACE}GiB) for 1 min 20 s."),
        (None, "Pulling the image for 1 min 20 s."),
    ],
)
def test_the_page_says_the_size_and_the_time_so_far_and_no_percent(
    pulls, as_user, alice, size, said
):
    with time_machine.travel(SINCE + 80, tick=False):
        page = page_of(pulls(size), as_user(alice))
    assert said in page
    assert "%" not in page.partition('class="state-words"')[2].partition("</div>")[0]


def test_the_api_gives_both_in_lists_and_alone(pulls, as_user, alice):
    row = pulls(4_509_715_661)
    base = "/api/v1/projects/vision/workspaces"
    one = as_user(alice).get(f"{base}/{row.short_id}").json()["status"]
    (listed,) = as_user(alice).get(base).json()["results"]
    assert one["pull"]["size_bytes"] == 4_509_715_661
    assert one["pull"]["since"].startswith("2026-11-21T06:00:00")
    assert one["message"] == "Pulling the image (4.2\N{NO-BREAK SPACE}GiB)."
    assert listed["status"] == one
    Workspace.objects.filter(pk=row.pk).update(reason=Reason.PROGRAM)
    assert as_user(alice).get(f"{base}/{row.short_id}").json()["status"]["pull"] is None


@pytest.mark.parametrize("reason", ["image-not-found", "image-auth", "image-unreachable"])
def test_a_fetch_that_failed_offers_what_helps_and_no_log(row, as_user, alice, reason):
    words = "registry.example.org/team/train:1.2: manifest unknown"
    Workspace.objects.filter(pk=row.pk).update(phase="failed", reason=reason, message=words)
    page = page_of(row, as_user(alice))
    assert words in page
    assert "end of the log" not in page
    assert f"/projects/vision/workspaces/{row.short_id}/settings/#id_image" in page
    assert 'href="/projects/vision/credentials/"' in page


def test_what_ran_and_failed_offers_its_log(row, as_user, alice):
    Workspace.objects.filter(pk=row.pk).update(phase="failed", reason="exit")
    page = page_of(row, as_user(alice))
    assert "Look at the end of the log" in page
    assert "#id_image" not in page
