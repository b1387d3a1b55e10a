"""A commit of a repository as a package, fetched from Git's own server by a fenced git."""

from __future__ import annotations

import base64
import os
import secrets
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jobs import fenced_git, repositories
from jobs.fenced_git import Login, NotFetchedError
from jobs.sources import repository
from tests.support.git_served import GitServed, drip, git_served

TOKEN = f"glpat-{secrets.token_hex(8)}"  # other processes are looked at, too


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServed]:
    with git_served(tmp_path_factory.mktemp("git")) as served:
        served.make("trainer", **{"train.py": "print(1)", "lib__a.py": "a"})
        served.git(served.tree("trainer"), "tag", "v1")
        yield served


@pytest.fixture
def served(running: GitServed, settings: Any) -> Iterator[GitServed]:
    running.settle(settings)
    yield running
    running.before = lambda _handler: False


def fetch(code: str, login: Login | None = None) -> tuple[str, dict[str, bytes], Any]:
    source = repository(code)
    assert source is not None, code
    with repositories.fetched(source, login, lambda: None) as commit:
        with tarfile.open(fileobj=commit.packed, mode="r:gz") as tar:
            files = {
                one.name: file.read() for one in tar if (file := tar.extractfile(one)) is not None
            }
        return commit.sha, files, commit.left_out


def refusal(code: str, login: Login | None = None) -> str:
    with pytest.raises(NotFetchedError) as raised:
        fetch(code, login)
    return str(raised.value)


def test_branch_tag_commit_and_none_name_a_commit(served: GitServed) -> None:
    first = served.git(served.tree("trainer"), "rev-parse", "v1").strip()
    files = {"train.py": b"print(1)", "lib/a.py": b"a"}
    assert fetch(served.code("trainer", "v1"))[:2] == (first, files)
    second = served.commit("trainer", **{"train.py": "print(2)"})
    for code in (served.code("trainer"), served.code("trainer").removesuffix("@main")):
        assert fetch(code)[:2] == (second, {**files, "train.py": b"print(2)"})
    assert fetch(served.code("trainer", first))[:2] == (first, files)
    inside = f"{served.code('trainer', 'v1')}#subdirectory=lib"
    assert fetch(inside)[:2] == (first, {"a.py": b"a"})


def test_the_same_commit_is_the_same_package(served: GitServed) -> None:
    source = repository(served.code("trainer", "v1"))
    assert source is not None
    packed = []
    for _again in range(2):
        with repositories.fetched(source, None, lambda: None) as commit:
            packed.append(commit.packed.read())
        time.sleep(1.1)
    assert packed[0] == packed[1]


def test_what_does_not_come_along_is_said_and_links_to_files_become_files(
    served: GitServed,
) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    served.make(
        "mixed", **{"a.py": "a", "data__x.bin": pointer, ".gitattributes": "a.py export-ignore\n"}
    )
    tree = served.tree("mixed")
    (tree / "data/link.py").symlink_to("../a.py")
    sha = served.git(tree, "rev-parse", "HEAD").strip()
    served.git(tree, "update-index", "--add", "--cacheinfo", f"160000,{sha},vendored")
    served.git(tree, "add", "data")
    served.git(tree, "-c", "user.name=t", "-c", "user.email=t@e", "commit", "-qm", "x")
    _sha, files, left = fetch(served.code("mixed"))
    assert (files["a.py"], files["data/link.py"]) == (b"a", b"a")
    assert left == {"modules": ["vendored"], "pointers": ["data/x.bin"]}
    (tree / "out.py").symlink_to("../../etc/passwd")
    served.commit("mixed")
    assert "“out.py” is a link to no file of it" in refusal(served.code("mixed"))


def test_what_is_not_there_or_closed_is_said_in_a_sentence(served: GitServed) -> None:
    assert refusal(served.code("trainer", "nope")) == (
        f"There is no branch, tag or commit “nope” at {served.host}/trainer."
    )
    assert "no branch, tag or commit" in refusal(served.code("trainer", "0" * 40))
    assert "There is no folder “x/y” in it." in refusal(
        f"{served.code('trainer')}#subdirectory=x/y"
    )
    assert f"{served.host}/nothing is not there, or may not be read" in refusal(
        served.code("nothing")
    )


def test_a_token_opens_a_private_one_and_is_nowhere_to_be_read(
    served: GitServed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.make("private", **{"a.py": "a"})
    served.tokens["private"] = TOKEN
    seen: list[str] = []

    def look(_handler: Any) -> bool:
        """What anybody on the machine may read of processes, and what lies on the disk."""
        for process in Path("/proc").glob("[0-9]*"):
            try:
                seen.append((process / "cmdline").read_bytes().decode(errors="replace"))
            except OSError:
                continue
        for path in tmp_path.rglob("*"):
            with suppress(FileNotFoundError):  # written beside its name, and renamed
                seen.append(path.read_bytes().decode(errors="replace") if path.is_file() else "")
        return False

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    served.before = look
    assert "keep a Git token" in refusal(served.code("private"))
    wrong = Login("robot", "oauth2", "wrong")
    assert "The credential “robot” does not open" in refusal(served.code("private"), wrong)
    right = Login("robot", "oauth2", TOKEN)
    assert fetch(served.code("private"), right)[1] == {"a.py": b"a"}
    assert any("git" in text for text in seen)
    pair = base64.b64encode(f"oauth2:{TOKEN}".encode()).decode()
    assert not any(TOKEN in text or pair in text for text in seen)
    assert TOKEN not in repr(right)
    assert not list(tmp_path.iterdir())


def test_a_private_address_is_never_reached(served: GitServed, settings: Any) -> None:
    settings.BERTH_OUTBOUND_ALLOW = []
    settings.BERTH_OUTBOUND_PORTS = [served.port]
    served.asked.clear()
    assert "is not at a public address" in refusal(served.code("trainer"))
    settings.BERTH_OUTBOUND_PORTS = [443]
    assert f"Port {served.port} is not one" in refusal(served.code("trainer"))
    assert served.asked == []


def test_the_address_that_was_looked_at_is_the_one_that_is_asked(
    served: GitServed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second answer of the name server changes nothing: git asks none."""
    from ipaddress import ip_address

    monkeypatch.setattr(fenced_git, "system_resolve", lambda *_asked: [ip_address("127.0.0.1")])
    told = refusal(f"git+https://no-such-name.invalid:{served.port}/trainer@main")
    assert told.startswith("The certificate of no-such-name.invalid")


def test_a_redirect_is_not_followed(served: GitServed) -> None:
    def elsewhere(handler: Any) -> bool:
        handler.send_response(302)
        handler.send_header("Location", f"https://{served.host}/trainer/info/refs")
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True

    served.before = elsewhere
    served.asked.clear()
    assert "says that it is at another address" in refusal(served.code("other"))
    assert served.asked == ["/other/info/refs", "/other.git/info/refs"]


def test_what_is_too_large_or_too_slow_ends_and_leaves_no_process(
    served: GitServed, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.make("large", zeros="0" * 3_000_000, b="b")
    monkeypatch.setattr(repositories, "MAX_UNPACKED", 2**20)
    assert refusal(served.code("large")).startswith("It is larger than 1 MiB")
    monkeypatch.setattr(repositories, "MAX_FILES", 1)
    monkeypatch.setattr(repositories, "MAX_UNPACKED", 2**30)
    assert refusal(served.code("large")).startswith("It holds more than 1 files")
    monkeypatch.setattr(fenced_git, "SECONDS", 1)
    served.before = drip
    assert "did not send it within 1 seconds" in refusal(served.code("large"))
    mine = str(os.getpid())
    left = [p for p in Path("/proc").glob("[0-9]*/stat") if _parent(p) == mine and _is_git(p)]
    assert left == []


def test_what_no_package_may_be_is_not_kept(served: GitServed, settings: Any) -> None:
    served.make("noise", a=secrets.token_hex(3 * 2**20))
    settings.BERTH_PACKAGE_MIB = 2
    assert refusal(served.code("noise")) == (
        "It is larger than 2 MiB. Put what is large on a volume instead."
    )


def _parent(stat: Path) -> str:
    try:
        return stat.read_text().rpartition(")")[2].split()[1]
    except OSError:
        return ""


def _is_git(stat: Path) -> bool:
    try:
        return b"git" in (stat.parent / "cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize(
    "code",
    [
        "git+http://github.com/a/b",
        "git+https://me:secret@github.com/a/b@main",
        "git+https://github.com/a/b@--upload-pack=touch",
        "git+https://github.com/a/../b",
        "git+https://github.com/a/b@main#subdirectory=../x",
        "git+https://github.com/a/b@a..b",
        "git+https://github.com/a b",
        "git+ssh://git@git@github.com/a/b",
        "git+file:///etc",
    ],
)
def test_what_is_no_address_of_a_repository_is_none(code: str) -> None:
    assert repository(code) is None
