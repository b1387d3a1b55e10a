"""Code that goes along with a job: what is kept, what is refused, who gets it."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from common.clock import now
from jobs import packages

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]
PACKAGES = "/api/v1/projects/vision/packages"
JOBS = "/api/v1/projects/vision/jobs"


def packed(*entries: tarfile.TarInfo | tuple[str, bytes], fmt: int = tarfile.PAX_FORMAT) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w:gz", format=fmt) as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry, io.BytesIO(b"\0" * entry.size) if entry.isreg() else None)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                tar.addfile(info, io.BytesIO(entry[1]))
    return into.getvalue()


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


GOOD = packed(("trainer/__init__.py", b""), ("trainer/task.py", b"print(1)\n"))


@pytest.fixture
def send(as_user: Any, alice: Any) -> Callable[..., Any]:
    def post(content: bytes = GOOD, who: Any = None) -> Any:
        return as_user(who or alice).post(PACKAGES, content, content_type="application/gzip")

    return post


def test_a_folder_is_kept_once_in_its_project(send: Any, bob: Any, vera: Any, charlie: Any) -> None:
    from jobs.models import Package

    first, again = send(), send()
    assert (first.status_code, again.status_code) == (201, 201), first.content
    assert first.json()["sha256"] == again.json()["sha256"]
    assert (first.json()["files"], first.json()["unpacked"]) == (2, 9)
    assert send(who=bob).json()["sha256"] == first.json()["sha256"]
    assert Package.objects.count() == 1
    assert send(who=vera).status_code == 403
    assert send(who=charlie).status_code == 404


def _bomb() -> bytes:
    """A gigabyte of zeros in one file of a megabyte."""
    info = tarfile.TarInfo("zeros")
    info.size = packages.MAX_UNPACKED + 1
    return gzip.compress(info.tobuf() + bytes(2**20)) + gzip.compress(bytes(2**22)) * 200


def _long_name() -> bytes:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 4 * 2**30
    return gzip.compress(info.tobuf() + bytes(2**20))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (packed(special("out", tarfile.SYMTYPE, "/etc/passwd")), "“out” is a link or a device"),
        (packed(special("hard", tarfile.LNKTYPE, "../x")), "“hard” is a link or a device"),
        (packed(special("null", tarfile.CHRTYPE)), "“null” is a link or a device"),
        (packed(special("pipe", tarfile.FIFOTYPE)), "“pipe” is a link or a device"),
        (packed(("../out.py", b"")), "“../out.py” leads out of the folder"),
        (packed(("/etc/cron.d/x", b"")), "“/etc/cron.d/x” leads out of the folder"),
        (
            packed(("表.py".encode("shift-jis").decode("utf-8", "surrogateescape"), b"")),
            "not UTF-8",
        ),
        (b"PK\x03\x04 a zip", "It is no folder that was packed as tar.gz"),
        (GOOD[:40], "It is no folder that was packed as tar.gz"),
        (b"", "It is no folder that was packed as tar.gz"),
        (packed(), "There is nothing in it."),
        (_long_name(), "longer than a name can be"),
        (_bomb(), "Unpacked it is larger than 512 MiB. Put what is large on a volume instead."),
    ],
    ids=lambda value: "content" if isinstance(value, bytes) else value,
)
def test_d5_what_can_not_be_unpacked_safely_is_refused(
    content: bytes, said: str, send: Any
) -> None:
    from jobs.models import Package

    answer = send(content)
    assert answer.status_code in {400, 413}
    assert said in answer.json()["detail"]
    assert not Package.objects.exists()


def test_d5_too_many_files_and_too_many_bytes_are_refused(
    send: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = packed(*((f"f{n}", b"") for n in range(10**5)))
    said = "more than 20000 files. Put them on a volume instead."
    assert said in send(many).json()["detail"]
    settings.BERTH_PACKAGE_MIB = 1
    answer = send(bytes(2**20 + 1))
    assert (answer.status_code, "larger than 1 MiB" in answer.json()["detail"]) == (413, True)


def test_a_project_keeps_so_much_and_no_more(send: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert send().status_code == 201
    monkeypatch.setattr(packages, "MAX_KEPT", len(GOOD))
    answer = send(packed(("other.py", b"")))
    assert (answer.status_code, answer.json()["code"]) == (409, "packages-full")
    assert send().status_code == 201  # the same takes no more


def test_a_job_names_a_package_of_its_project_and_begins_in_it(
    api: Any, send: Any, alice: Any, settle: Any
) -> None:
    from jobs.models import Job
    from jobs.runtime_spec import workload_spec

    code = f"package:{send().json()['sha256']}"
    body = {"name": "t", "command": ["python3", "-m", "trainer.task"], "args": ["--a"]}
    assert api(alice, "POST", JOBS, {**body, "code": "package:" + "0" * 64}).status_code == 400
    assert api(alice, "POST", JOBS, {"name": "t", "code": code}).json()["fields"].keys() == {
        "command"
    }
    answer = api(alice, "POST", JOBS, {**body, "code": code})
    assert answer.status_code == 202, answer.content
    assert answer.json()["spec"]["code"] == code
    spec = workload_spec(Job.objects.get())
    assert spec.command[-4:] == ("python3", "-m", "trainer.task", "--a")
    assert spec.env["BERTH_CODE_URL"].endswith("/code")
    assert "BERTH_CODE_TOKEN" in spec.secret_env()
    assert "BERTH_CODE_TOKEN" not in spec.env


def test_a1_only_the_launch_itself_gets_its_code(
    api: Any, send: Any, alice: Any, client: Any, settings: Any
) -> None:
    from jobs.models import Job
    from jobs.runtime_spec import workload_spec

    code = f"package:{send().json()['sha256']}"
    api(alice, "POST", JOBS, {"name": "t", "command": ["python3", "x"], "code": code})
    row = Job.objects.get()
    address = f"/hub/api/berth/jobs/{row.uid}/code"
    token = workload_spec(row).secret_env()["BERTH_CODE_TOKEN"]
    inside = {"SERVER_PORT": str(settings.BERTH_INTERNAL_PORT)}

    def ask(token: str, **more: Any) -> Any:
        headers = {"authorization": f"Bearer {token}"}
        return client.get(address, headers=headers, **{**inside, **more})

    assert ask(token).content == GOOD
    assert ask(token, SERVER_PORT="80").status_code == 404
    assert ask("x" * 43).status_code == 403
    row.launch += 1
    row.save()
    assert ask(token).status_code == 403
    row.desired = "absent"
    row.save()
    assert ask(workload_spec(row).secret_env()["BERTH_CODE_TOKEN"]).status_code == 409


def test_a_package_stays_as_long_as_a_job_needs_it(api: Any, send: Any, alice: Any) -> None:
    from jobs.models import Job, Package

    kept = send().json()["sha256"]
    send(packed(("other.py", b"")))
    body = {"name": "t", "command": ["python3", "x"], "code": f"package:{kept}"}
    api(alice, "POST", JOBS, body)
    assert packages.packages_prune() == 0
    Package.objects.update(sent_at=now() - timedelta(days=2))
    assert packages.packages_prune() == 1
    assert Package.objects.get().sha256 == kept
    Job.objects.update(code="")  # its next run is without; the one before may be run again
    assert packages.packages_prune() == 0
    Job.objects.update(deleted_at=now())
    assert packages.packages_prune() == 1


def test_one_that_is_named_again_is_not_pruned_in_that_moment(
    send: Any, api: Any, alice: Any, django_assert_num_queries: Any
) -> None:
    """What names it moves ``sent_at`` in its own transaction, which the one statement looks at."""
    from jobs.models import Package

    kept = send().json()["sha256"]
    Package.objects.update(sent_at=now() - timedelta(days=2))
    send()
    assert packages.packages_prune() == 0
    Package.objects.update(sent_at=now() - timedelta(days=2))
    body = {"name": "t", "command": ["python3", "x"], "code": f"package:{kept}"}
    assert api(alice, "POST", JOBS, body).status_code == 202
    assert Package.objects.get().sent_at > now() - timedelta(minutes=1)
    with django_assert_num_queries(1):
        packages.packages_prune()


def test_what_a_process_of_the_version_before_wrote_down_keeps_its_package(
    send: Any, api: Any, alice: Any
) -> None:
    from jobs.models import Job, Package, Run

    kept = send().json()["sha256"]
    body = {"name": "t", "command": ["python3", "x"], "code": f"package:{kept}"}
    api(alice, "POST", JOBS, body)
    Package.objects.update(sent_at=now() - timedelta(days=2))
    Job.objects.update(code="")
    Run.objects.update(code="")  # that version has no such column
    assert packages.packages_prune() == 0


def test_a_start_whose_package_is_gone_is_refused_and_not_begun(
    send: Any, api: Any, alice: Any
) -> None:
    from jobs.models import Job, Package, Run

    kept = send().json()["sha256"]
    body = {"name": "t", "command": ["python3", "x"], "code": f"package:{kept}"}
    row = api(alice, "POST", JOBS, body).json()
    Job.objects.update(desired="stopped", phase="stopped", stop_reason="cancelled")
    Package.objects.all().delete()
    answer = api(alice, "POST", f"{JOBS}/{row['id']}/start")
    assert (answer.status_code, "Send it once more" in answer.content.decode()) == (400, True)
    assert Run.objects.count() == 1
