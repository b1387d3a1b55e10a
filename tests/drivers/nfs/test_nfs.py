"""Volumes on a real NFS server: the layout that the cluster driver expects, and what it keeps.

The server is NFS-Ganesha with root squashed; it is talked to over NFS 4 by a user-space client,
and by the kernel's where there is one. The program of the Job that makes and wipes folders runs
on the exported folder as the Job would: as the workloads' user, with the export at /export.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.drivers.kubernetes import nfs
from runtime.drivers.kubernetes.builders import volume
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.spec import Backing
from tests.drivers.local.harness import PYTHON
from tests.support.nfs import (
    EXPORT,
    NOBODY_ELSE,
    SERVER,
    NfsServer,
    RefusedError,
    kernel_lacks,
    serving,
)

pytestmark = [pytest.mark.real, pytest.mark.root]
OPTIONS = KubernetesOptions(data_image="data:1")
USER = OPTIONS.run_as_user
ON = Backing("nfs", {"server": SERVER, "export": EXPORT})


@pytest.fixture(scope="module")
def server() -> Iterator[NfsServer]:
    with serving(USER) as made:
        yield made


def path_of(uid: str) -> str:
    """Where the node would mount this volume."""
    made = volume.volume(uid, "ns", OPTIONS, project="p", owner="o", backing=ON)
    return str(made["spec"]["nfs"]["path"])


def folders(server: NfsServer, verb: str, uid: str) -> subprocess.CompletedProcess[str]:
    """Run the Job's own program, word for word, as the Job's own user."""
    pod = nfs.job(verb, uid, ON, OPTIONS)["spec"]["template"]["spec"]
    _python, *words = pod["containers"][0]["command"]
    user = pod["securityContext"]["runAsUser"]
    script = 'mkdir -p "$2"/export && mount --bind "$1" "$2"/export && shift 2 && exec "$@"'
    # The image has /export as the mount of its volume; here it is one for this process alone.
    inside = [*words]
    inside[inside.index("-c") + 1] = nfs.SCRIPT.replace("/export", f"{server.folder}/export")
    program = (
        "import os, sys; os.setgroups([]); os.setgid(int(sys.argv[1]));"
        " os.setuid(int(sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])"
    )
    return subprocess.run(
        [
            *("unshare", "-m", "sh", "-c", script, "-", str(server.top), str(server.folder)),
            *(PYTHON, "-I", "-c", program, str(user), PYTHON, *inside),
        ],
        capture_output=True,
        text=True,
        check=False,
    )


def make(server: NfsServer, *uids: str) -> None:
    for uid in uids:
        done = folders(server, nfs.MAKE, uid)
        assert done.returncode == 0, done.stderr


def new(word: str) -> str:
    """A name that an earlier try has not left there."""
    return f"{word}-{secrets.token_hex(3)}"


def test_a_volume_is_the_folder_of_its_uid(server: NfsServer) -> None:
    uid = new("v1")
    make(server, uid)
    make(server, uid)  # made once
    found = (server.top / uid).stat()
    assert (found.st_mode & 0o7777, found.st_uid) == (0o700, USER)
    server.write(f"{path_of(uid)}/file", "hello", USER)
    assert server.read(f"{path_of(uid)}/file", USER) == "hello"
    assert server.names(path_of(uid), USER) == ["file"]
    assert (server.top / uid / "file").stat().st_uid == USER


@pytest.mark.parametrize("user", [NOBODY_ELSE, 0])
def test_c8_another_user_reads_nothing_and_root_is_nobody(server: NfsServer, user: int) -> None:
    uid = new(f"v2-{user}")
    make(server, uid)
    server.write(f"{path_of(uid)}/secret", "secret", USER)
    with pytest.raises(RefusedError, match="NFS4ERR_ACCESS"):
        server.names(path_of(uid), user)
    for act in (
        lambda: server.read(f"{path_of(uid)}/secret", user),
        lambda: server.write(f"{path_of(uid)}/mine", "x", user),
        lambda: server.write(f"{path_of(uid)}/secret", "changed", user),
    ):
        with pytest.raises(RefusedError):
            act()
    assert (server.top / uid / "secret").read_text() == "secret"
    assert not (server.top / uid / "mine").exists()


def test_c8_who_lists_the_export_learns_nothing(server: NfsServer) -> None:
    make(server, "v4")
    with pytest.raises(RefusedError, match="NFS4ERR_ACCESS"):
        server.names(EXPORT, NOBODY_ELSE)


def test_c9_a_removed_volume_is_wiped_and_a_new_one_is_empty(server: NfsServer) -> None:
    uid, sibling = new("v5"), new("sibling")
    make(server, uid, sibling)
    server.write(f"{path_of(uid)}/left", "left", USER)
    server.write(f"{path_of(sibling)}/kept", "kept", USER)
    for name, target in (("up", f"../{sibling}"), ("root", "/"), ("out", str(server.folder))):
        (server.top / uid / name).symlink_to(target)
    for _ in range(2):
        done = folders(server, nfs.WIPE, uid)
        assert done.returncode == 0, done.stderr
    assert not (server.top / uid).exists()
    assert [p for p in server.top.iterdir() if p.name.startswith(".wiping")] == []
    assert server.read(f"{path_of(sibling)}/kept", USER) == "kept"
    make(server, uid)
    assert server.names(path_of(uid), USER) == []


def test_e1_a_wipe_that_was_killed_goes_on(server: NfsServer) -> None:
    uid = new("v6")
    make(server, uid)
    begun = (server.top / uid).rename(server.top / f".wiping-{uid}")  # as far as it came
    (begun / "left").write_text("x")
    assert folders(server, nfs.WIPE, uid).returncode == 0
    assert not begun.exists()


def test_c8_a_link_in_place_of_the_folder_is_refused(server: NfsServer) -> None:
    uid, target = new("v7"), server.folder / new("elsewhere")
    target.mkdir()
    (target / "kept").touch()
    (server.top / uid).symlink_to(target)
    done = folders(server, nfs.MAKE, uid)
    assert done.returncode != 0
    assert "FileExistsError" in done.stderr
    folders(server, nfs.WIPE, uid)
    assert (target / "kept").exists()


def test_a_top_that_is_not_ours_is_said(server: NfsServer) -> None:
    os.chown(server.top, 0, 0)
    try:
        done = folders(server, nfs.MAKE, "v8")
        assert done.returncode != 0
        assert "PermissionError" in done.stderr  # the last line is what people are told
    finally:
        os.chown(server.top, USER, USER)


def test_the_kernel_mounts_it_as_the_node_would(server: NfsServer) -> None:
    if why := kernel_lacks():
        pytest.skip(why)
    uid = new("v9")
    make(server, uid, "v10")
    (server.top / "v10/secret").write_text("secret")
    made = volume.volume(uid, "ns", OPTIONS, project="p", owner="o", backing=ON)["spec"]
    at = Path(server.folder / new("mounted"))
    at.mkdir()
    options = ",".join([*made["mountOptions"], f"port={server.port}"])
    source = f"{SERVER}:{made['nfs']['path']}"
    subprocess.run(["mount", "-t", "nfs4", "-o", options, source, at], check=True)
    try:
        look = (
            "import os, sys; os.setgid(1000); os.setuid(1000); os.chdir(sys.argv[1]);"
            " open('file', 'w').write('x'); os.symlink('../v10/secret', 'link');"
            " print(sorted(os.listdir('.')), os.path.exists('link'),"
            " os.path.exists('../v10/secret'))"
        )
        said = subprocess.run(
            [sys.executable, "-c", look, at], capture_output=True, text=True, check=True
        )
        assert said.stdout == "['file', 'link'] False False\n"
    finally:
        subprocess.run(["umount", at], check=True)
