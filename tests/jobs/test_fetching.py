"""The code of a repository for one launch of a job: waited for, kept, given up, run again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from credentials.services import Label, credential_add
from hubapi.services import derive
from jobs import fetching, repositories, sources
from jobs.code import PURPOSE, with_code
from jobs.models import Job, Package, Run
from jobs.packages import packages_prune
from jobs.states import state_of
from tests.jobs.test_code_begins import BaseHTTPRequestHandler
from tests.support.git_served import GitServed, git_served
from work import services
from work.kinds import kind_of

pytestmark = pytest.mark.django_db
COMMAND = ["python3", "train.py"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServed]:
    with git_served(tmp_path_factory.mktemp("git")) as served:
        served.make("trainer", **{"train.py": "print(1)"})
        yield served


@pytest.fixture
def served(running: GitServed, settings: Any) -> Iterator[GitServed]:
    running.settle(settings)
    running.asked.clear()
    yield running
    running.before = lambda _handler: False


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the engine sent to the broker; the test is the worker that takes it, when it likes."""
    found: list[str] = []
    monkeypatch.setattr(fetching.fetch_code, "delay", found.append)
    return found


@pytest.fixture
def made(project: Any, principal: Any, settle: Any, sent: Any) -> Callable[..., Job]:
    def make(user: Any, **said: Any) -> Job:
        values = {"name": "train", "command": COMMAND, **said}
        row: Job = settle(
            services.workload_create(
                principal=principal(user), project=project, kind=kind_of("job"), said=values
            )
        )
        return row

    return make


def fetch(sent: list[str]) -> None:
    uid = sent[-1]
    sent.clear()
    fetching.code_fetch(uid)  # type: ignore[arg-type]


def test_it_waits_for_its_code_and_runs_with_the_commit_that_the_branch_meant(
    served: GitServed, made: Any, sent: Any, settle: Any, end: Any, alice: Any, bob: Any,
    as_user: Any, principal: Any,
) -> None:  # fmt: skip
    row = made(alice, code=served.code("trainer"))
    assert (row.reason, row.message, set(sent)) == ("fetching-code", served.host, {str(row.uid)})
    page = as_user(alice).get(row.get_absolute_url()).content.decode()
    assert f"Fetching the code of main at {served.host}/trainer" in page
    assert "trainer" not in as_user(bob).get(row.get_absolute_url()).content.decode()
    fetch(sent)
    row = settle(row)
    assert (state_of(row), row.reason) == ("running", "")
    first = served.git(served.tree("trainer"), "rev-parse", "HEAD").strip()
    package = Package.objects.get()
    run = Run.objects.get(job=row)
    assert (run.commit, run.code) == (first, f"package:{package.sha256}")
    assert with_code(row, COMMAND)[3:] == (package.sha256, *COMMAND)
    answer = as_user(alice).get(
        f"/hub/api/berth/jobs/{row.uid}/code",
        HTTP_AUTHORIZATION=f"Bearer {derive(PURPOSE, row.uid, row.launch)}",
        SERVER_PORT=str(settings.BERTH_INTERNAL_PORT),
    )
    assert bytes(answer.content) == bytes(package.content)

    end(row, 0)  # a start resolves the branch anew
    second = served.commit("trainer", **{"train.py": "print(2)"})
    row = settle(services.workload_start(principal=principal(alice), row=row))
    fetch(sent)
    end(settle(row), 0)
    assert [one.commit for one in Run.objects.filter(job=row)] == [second, first]
    url = f"/api/v1/projects/vision/jobs/{row.short_id}/runs"
    differ = as_user(alice).get(f"{url}/diff").json()
    assert differ["files"] == {"train.py": "changed"}
    assert ("commit", first, second) in [(d["name"], d["a"], d["b"]) for d in differ["said"]]
    assert as_user(bob).get(url).json()["results"][0]["commit"] is None

    served.asked.clear()  # a run again has the bytes that it had, whoever is away
    assert as_user(alice).post(f"{url}/1/again").status_code == 202
    row = settle(row)
    assert row.code == f"{served.code('trainer').removesuffix('@main')}@{first}"
    fetch(sent)
    assert (state_of(settle(row)), served.asked) == ("running", [])
    assert Run.objects.filter(job=row)[0].code == run.code


def test_a_package_of_a_commit_stays_as_long_as_a_run_of_it(
    served: GitServed, made: Any, sent: Any, settle: Any, end: Any, alice: Any
) -> None:
    row = made(alice, code=served.code("trainer"))
    fetch(sent)
    end(settle(row), 0)
    Package.objects.update(sent_at="2020-01-01T00:00:00Z")
    assert packages_prune() == 0
    Run.objects.update(code="")
    assert packages_prune() == 1


def test_what_does_not_come_is_said_to_its_owner_and_never_queued(
    served: GitServed, made: Any, sent: Any, settle: Any, alice: Any, bob: Any, as_user: Any,
    principal: Any,
) -> None:  # fmt: skip
    row = made(alice, code=served.code("trainer", "nope"), smoke=True)
    fetch(sent)
    row = settle(row)
    assert (state_of(row), row.reason, row.started_at) == ("failed", "code-not-fetched", None)
    one = Job.objects.get(smoke_of=row.uid)
    assert (state_of(settle(one)), one.started_at) == ("failed", None)
    url = f"/api/v1/projects/vision/jobs/{row.short_id}"
    said = f"There is no branch, tag or commit “nope” at {served.host}/trainer."
    assert as_user(alice).get(url).json()["status"]["failure"] == said
    assert said in as_user(alice).get(row.get_absolute_url()).content.decode()
    assert "nope" not in str(as_user(bob).get(url).json())
    values = {"code": served.code("trainer")}
    row = services.workload_edit(principal=principal(alice), row=row, said=values, start=True)
    settle(row)
    fetch(sent)
    fresh = Job.objects.exclude(desired="absent").get(smoke_of=row.uid)
    assert state_of(settle(fresh)) == "running"  # it has the code of its job
    assert with_code(fresh, COMMAND)[3] == Package.objects.get().sha256


def test_a_host_that_is_away_is_asked_three_times(
    served: GitServed, made: Any, sent: Any, settle: Any, alice: Any
) -> None:
    def away(handler: BaseHTTPRequestHandler) -> bool:
        handler.send_response(503)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True

    served.before = away
    row = made(alice, code=served.code("trainer"))
    for tries in (1, 2, 3):
        Job.objects.filter(pk=row.pk).update(fetched={"tries": tries - 1, "until": 0})
        fetching.code_fetch(row.uid)
        row = settle(row)
        assert row.reason == ("fetching-code" if tries < 3 else "code-not-fetched")
    assert fetching.problem_of(row) == f"{served.host} can't be reached."


def test_a_token_of_the_project_opens_a_private_one(
    served: GitServed, made: Any, sent: Any, settle: Any, alice: Any, project: Any, principal: Any
) -> None:
    if not served.tree("private").exists():
        served.make("private", **{"train.py": "print(3)"})
    served.tokens["private"] = "glpat-1234567890"
    for host, token in (("git.example.com", "other-token"), (served.host, "glpat-1234567890")):
        credential_add(
            principal=principal(alice),
            project=project,
            kind="git",
            label=Label(f"robot of {host}", usable_by="members"),
            fields={"host": host, "token": token, "username": "", "repository": ""},
        )
    row = made(alice, code=served.code("private"))
    fetch(sent)
    row = settle(row)
    assert state_of(row) == "running"
    assert "glpat" not in str(list(Job.objects.values())) + str(list(Run.objects.values()))


def test_a_worker_that_dies_loses_nothing_and_a_late_one_writes_nothing(
    served: GitServed, made: Any, sent: Any, settle: Any, alice: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    row = made(alice, code=served.code("trainer"))
    late = fetching._claim(row.uid, "late")
    assert late is not None
    fetching.code_fetch(row.uid)  # somebody is at it
    assert Job.objects.get(pk=row.pk).fetched["by"] == "late"
    sent.clear()
    settle(row)
    assert sent == []
    Job.objects.filter(pk=row.pk).update(fetched={"by": "late", "until": time.time() - 1})
    Job.objects.filter(pk=row.pk).update(next_reconcile_at="2020-01-01T00:00:00Z")
    settle(row)
    assert str(row.uid) in sent
    fetch(sent)
    assert not fetching._write(row.uid, "late", {"problem": "x"})
    assert state_of(settle(row)) == "running"


def test_a_package_that_went_meanwhile_is_fetched_once_more(
    served: GitServed, made: Any, sent: Any, settle: Any, alice: Any
) -> None:
    row = made(alice, code=served.code("trainer"))
    assert fetching._claim(row.uid, "me") is not None
    found = {"commit": "c" * 40, "package": "package:" + "0" * 64, "left_out": {}}
    assert fetching._write(row.uid, "me", found)
    assert Job.objects.get(pk=row.pk).fetched == {"tries": 0, "until": 0.0}
    fetch(sent)
    assert state_of(settle(row)) == "running"


def test_a_new_launch_takes_nothing_from_the_one_before(
    served: GitServed, made: Any, sent: Any, settle: Any, alice: Any, principal: Any, want: Any
) -> None:
    row = made(alice, code=served.code("trainer"))
    assert fetching._claim(row.uid, "before") is not None
    row = services.workload_stop(principal=principal(alice), row=row)
    assert not fetching._claim(row.uid, "nobody asks")
    row = services.workload_start(principal=principal(alice), row=settle(row))
    assert row.fetched == {}
    found = {"commit": "c" * 40, "package": "package:" + "0" * 64, "left_out": {}}
    assert not fetching._write(row.uid, "before", found)


def test_code_in_a_volume_is_begun_in_and_not_kept(
    made: Any, end: Any, alice: Any, as_user: Any, shared: Any
) -> None:
    row = made(alice, code="volume:shared/experiments/a")
    assert with_code(row, COMMAND)[:2] == ("sh", "-c")
    assert with_code(row, COMMAND)[3:] == ("shared/experiments/a", *COMMAND)
    end(row, 0)
    page = as_user(alice).get(f"{row.get_absolute_url()}runs/").content.decode()
    assert "volume, not kept" in page
    said = {"name": "b", "command": COMMAND, "code": "volume:nowhere/a"}
    answer = as_user(alice).post(
        "/api/v1/projects/vision/jobs", said, content_type="application/json"
    )
    assert (answer.status_code, "none of the job's volumes" in str(answer.json())) == (400, True)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("git+https://127.0.0.1/a/b@main", "not at a public address"),
        ("git+https://github.com:22/a/b@main", "Port 22"),
        ("git+https://me:secret@github.com/a/b", "git+https://HOST"),
        ("volume:../x", "git+https://HOST"),
    ],
)
def test_an_address_that_may_not_be_asked_is_refused_at_once(
    code: str, told: str, alice: Any, as_user: Any, project: Any
) -> None:
    said = {"name": "b", "command": COMMAND, "code": code}
    answer = as_user(alice).post(
        "/api/v1/projects/vision/jobs", said, content_type="application/json"
    )
    assert answer.status_code == 400
    assert told in str(answer.json())


WORKER = """
import sys
import django
django.setup()
from jobs import fenced_git, repositories
from jobs.sources import repository
fenced_git.SECONDS = 8
with repositories.fetched(repository(sys.argv[1]), None, lambda: print("on", flush=True)):
    pass
"""


def test_a_killed_worker_leaves_a_git_that_ends_by_itself(
    served: GitServed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def late(_handler: BaseHTTPRequestHandler) -> bool:
        asked.set()
        time.sleep(90)  # it must not be that which ends it
        return True

    def at_it() -> list[Path]:
        folder = str(tmp_path)
        return [p for p in Path("/proc").glob("[0-9]*") if _works_in(p).startswith(folder)]

    served.before = late
    own = {"TMPDIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "portal.settings.test"}
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, served.code("trainer")],
        env={**os.environ, **served.settings, **own},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "on\n"
    assert asked.wait(60)
    worker.kill()
    worker.wait()
    assert at_it()
    deadline = time.monotonic() + 60
    while at_it() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert at_it() == []
    (left,) = tmp_path.glob("berth-code-*")
    os.utime(left, (0, 0))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    repositories.tidy()
    assert not left.exists()


def _works_in(process: Path) -> str:
    try:
        return str((process / "cwd").readlink())
    except OSError:
        return ""


def test_a_host_with_a_dot_at_its_end_is_no_address():
    assert sources.repository("git+https://example.org./a/b@main") is None
    assert sources.repository("git+https://example.org/a/b@main") is not None


def test_the_end_of_an_address_is_no_part_of_its_name():
    plain, dotted = (sources.repository(f"git+https://a.org/b/c{end}@main") for end in ("", ".git"))
    assert plain is not None
    assert dotted is not None
    assert (plain.path, plain.suffix) == ("b/c", "")
    assert (dotted.path, dotted.suffix) == ("b/c", ".git")
