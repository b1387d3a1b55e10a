"""Code of a repository over SSH: OpenSSH's own server, a project's key, and who the host is."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from credentials.services import Label, credential_add
from jobs import fenced_git, fetching, sources
from jobs.models import Job, Package, Run
from jobs.states import state_of
from tests.support.git_over_ssh import SSHD, SshServed, git_over_ssh, key_made
from tests.support.git_served import GitServed
from work import services
from work.kinds import kind_of

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(not SSHD or not shutil.which("ssh"), reason="OpenSSH is not installed here"),
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServed]:
    with git_over_ssh(tmp_path_factory.mktemp("ssh")) as served:
        GitServed(served.folder).make("trainer", **{"train.py": "print(1)"})
        yield served


@pytest.fixture
def served(running: SshServed, settings: Any) -> SshServed:
    settings.BERTH_OUTBOUND_ALLOW = [f"127.0.0.1/32:{running.port}"]
    return running


@pytest.fixture
def keep(project: Any, principal: Any, alice: Any, served: SshServed) -> Callable[..., None]:
    def add(**said: str) -> None:
        fields = {"host": served.host, "private_key": served.private_key, "user": ""}
        credential_add(
            principal=principal(alice),
            project=project,
            kind="ssh",
            label=Label("deploy key", usable_by="members"),
            fields={**fields, "known_hosts": served.host_key, **said},
        )

    return add


@pytest.fixture
def fetched(
    project: Any, principal: Any, alice: Any, settle: Any, served: SshServed, monkeypatch: Any
) -> Callable[..., Job]:
    monkeypatch.setattr(fetching.fetch_code, "delay", lambda *_said: None)

    def fetch(code: str = "") -> Job:
        code = code or served.code(served.folder / "trees" / "trainer")
        said = {"command": ["python3", "train.py"], "code": code}
        row = services.workload_create(
            principal=principal(alice), project=project, kind=kind_of("job"), said=said
        )
        settle(row)
        fetching.code_fetch(row.uid)
        found: Job = settle(row)
        return found

    return fetch


def test_the_projects_key_opens_it_and_lies_nowhere(
    served: SshServed, keep: Any, fetched: Any, monkeypatch: Any
) -> None:
    seen: list[str] = []
    popen = subprocess.Popen

    def looked_at(words: Any, **said: Any) -> Any:
        """Note what a neighbour could read of the processes that are started."""
        seen.append(f"{words} {said.get('env')}")
        seen.extend(_texts(Path(said["cwd"])))
        return popen(words, **said)

    keep()
    with monkeypatch.context() as patched:
        patched.setattr(fenced_git.subprocess, "Popen", looked_at)
        row = fetched()
    assert (state_of(row), fetching.problem_of(row)) == ("running", "")
    run = Run.objects.get(job=row)
    sha = GitServed(served.folder).git(served.folder / "trees" / "trainer", "rev-parse", "HEAD")
    assert (run.commit, run.code) == (sha.strip(), f"package:{Package.objects.get().sha256}")
    secret = served.private_key.splitlines()[2]
    assert any("ssh -F none" in text for text in seen)
    assert not [text for text in seen if secret in text or "PRIVATE KEY" in text]
    assert secret not in str(list(Job.objects.values()))
    assert "Accepted publickey" in served.log


def _texts(folder: Path) -> list[str]:
    return [path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()]


def test_a_host_that_nobody_knows_is_not_believed(
    served: SshServed, keep: Any, fetched: Any
) -> None:
    keep(known_hosts="")
    row = fetched()
    assert (state_of(row), row.reason) == ("failed", "code-not-fetched")
    assert fetching.problem_of(row) == (
        f"Nobody can tell whether it is the real {served.host}: add its keys to the credential "
        "“deploy key”, as ssh-keyscan prints them."
    )


def test_a_host_that_shows_another_key_gets_nothing(
    served: SshServed, keep: Any, fetched: Any, tmp_path: Path
) -> None:
    key_made(tmp_path / "other")
    keep(known_hosts=(tmp_path / "other.pub").read_text())
    before = served.log.count("publickey")
    row = fetched()
    assert "shows another key than those of the credential" in fetching.problem_of(row)
    assert served.log.count("publickey") == before


@pytest.mark.parametrize(("other", "told"), [("key", "does not open"), ("path", "does not open")])
def test_what_the_key_does_not_open_is_said(
    other: str, told: str, served: SshServed, keep: Any, fetched: Any, tmp_path: Path
) -> None:
    key_made(tmp_path / "stranger")
    keep(**({"private_key": (tmp_path / "stranger").read_text()} if other == "key" else {}))
    row = fetched("" if other == "key" else served.code(served.folder / "nowhere"))
    assert told in fetching.problem_of(row)
    assert "deploy key" in fetching.problem_of(row)


def test_without_a_key_it_is_said_which_one_lacks(served: SshServed, fetched: Any) -> None:
    assert f"keep one for {served.host}" in fetching.problem_of(fetched())


def test_only_its_own_port_is_open_to_it(
    settings: Any, as_user: Any, alice: Any, project: Any
) -> None:
    settings.BERTH_OUTBOUND_ALLOW = []
    for code, told in (
        ("git+ssh://git@github.com:2222/a/b", "Port 2222"),
        ("git+ssh://git@127.0.0.1/a/b", "not at a public address"),
        ("git+ssh://git:secret@github.com/a/b", "git+https://HOST"),
        ("git+ssh://-oProxyCommand=x@github.com/a/b", "git+https://HOST"),
        ("git+ssh://git@-oProxyCommand=x/a/b", "git+https://HOST"),
    ):
        said = {"name": "b", "command": ["true"], "code": code}
        url = "/api/v1/projects/vision/jobs"
        answer = as_user(alice).post(url, said, content_type="application/json")
        assert (answer.status_code, told in str(answer.json())) == (400, True), answer.json()


def test_it_is_spelled_as_pip_spells_it() -> None:
    found = sources.repository("git+ssh://git@GitHub.com:22/team/project.git@v1#subdirectory=a/b")
    assert found is not None
    assert (found.host, found.url) == ("github.com", "ssh://git@github.com/team/project.git")
    assert found.at("c" * 40).startswith("git+ssh://git@github.com/team/project.git@ccc")
