"""Copies of volumes: made once, whole or not at all, and put back by one exchange of names."""

import asyncio
import contextlib
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.drivers.local import copytree, processes
from runtime.drivers.local.launcher import Machine
from runtime.drivers.local.requests import Refused
from runtime.drivers.local.snapshots import Snapshots
from runtime.protocol import DriverError, InvalidSpec, NotYet, Unreachable
from runtime.spec import Backing, Mount
from tests.drivers.local.harness import IS_ROOT, wait_for

real = pytest.mark.real
SWAP = """
import os, sys
source, outside = sys.argv[1:]
while True:
    for number in range(300):
        path = f"{source}/x{number:03}"
        try:
            os.rmdir(path)
            os.symlink(outside, path)
            os.unlink(path)
            os.mkdir(path)
        except OSError:
            continue
"""
FOLDER = Backing("directory")


def copied(source: Path, target: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-E", copytree.__file__, source, target],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def inside(folder: int) -> int:
    """Step into ``d2`` by descriptors: the path of a deep one is too long to be said."""
    inner = os.open("d2", os.O_RDONLY, dir_fd=folder)
    os.close(folder)
    return inner


class TestCopy:
    """The program that copies."""

    @pytest.fixture
    def source(self, tmp_path):
        made = tmp_path / "source"
        (made / "d/e").mkdir(parents=True)
        return made

    def test_everything_that_is_a_file_is_the_same_there(self, source, tmp_path):
        (source / "d/e/f").write_text("hello")
        (source / "d/e/f").chmod(0o640)
        os.utime(source / "d/e/f", (1_000_000, 1_000_000))
        os.setxattr(source / "d/e/f", "user.note", b"kept")
        (source / "link").symlink_to("d/e/f")
        (source / "broken").symlink_to("/nowhere")
        os.link(source / "d/e/f", source / "again")
        (source / "empty").touch()
        (source / "d").chmod(0o2750)
        assert copied(source, tmp_path / "target") == 5
        target = tmp_path / "target"
        assert (target / "d/e/f").read_text() == "hello"
        assert (target / "d/e/f").stat().st_mode & 0o7777 == 0o640
        assert (target / "d/e/f").stat().st_mtime == 1_000_000
        assert os.getxattr(target / "d/e/f", "user.note") == b"kept"
        assert (target / "link").readlink() == Path("d/e/f")
        assert (target / "broken").readlink() == Path("/nowhere")
        assert (target / "again").samefile(target / "d/e/f")
        assert not (target / "again").samefile(source / "d/e/f")
        assert (target / "d").stat().st_mode & 0o7777 == 0o2750
        assert sorted(p.name for p in target.iterdir()) == ["again", "broken", "d", "empty", "link"]

    def test_a_hole_stays_a_hole(self, source, tmp_path):
        with (source / "sparse").open("wb") as file:
            file.truncate(64 * 2**20)
            file.seek(32 * 2**20)
            file.write(b"x" * 5000)
        copied(source, tmp_path / "target")
        made = tmp_path / "target/sparse"
        assert made.stat().st_size == 64 * 2**20
        assert made.stat().st_blocks * 512 < 2**20
        assert made.read_bytes() == (source / "sparse").read_bytes()

    def test_c8_what_is_no_file_is_left_out(self, source, tmp_path):
        os.mkfifo(source / "pipe")
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(source / "socket"))
            if IS_ROOT:
                os.mknod(source / "device", 0o600 | 0o020000, os.makedev(1, 3))
            copied(source, tmp_path / "target")
        assert sorted(p.name for p in (tmp_path / "target").iterdir()) == ["d"]

    def test_c8_a_folder_that_becomes_a_link_is_not_followed(self, source, tmp_path):
        """The classical race: the name is swapped between the look and the step."""
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret").write_text("secret")
        for number in range(300):
            (source / f"x{number:03}").mkdir()
        swapper = subprocess.Popen([sys.executable, "-c", SWAP, source, outside])
        try:
            for attempt in range(5):
                copied(source, tmp_path / f"target{attempt}")
                found = list((tmp_path / f"target{attempt}").rglob("secret"))
                assert [p for p in found if not p.parent.is_symlink()] == []
        finally:
            swapper.kill()
            swapper.wait()

    @pytest.fixture
    def many_descriptors(self):
        """As the supervisor sets it for what it starts: a copy holds two for each level."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        yield
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_deep_folders_need_no_stack(self, source, tmp_path, many_descriptors):
        levels = sys.getrecursionlimit() + 500
        folder = os.open(source, os.O_RDONLY)
        for _ in range(levels):
            os.mkdir("d2", dir_fd=folder)
            folder = inside(folder)
        os.close(folder)
        target = tmp_path / "target"
        try:
            copied(source, target)
            folder, found = os.open(target, os.O_RDONLY), 0
            while "d2" in os.listdir(folder):  # noqa: PTH208 - of a descriptor
                folder, found = inside(folder), found + 1
            os.close(folder)
        finally:  # pytest's own removal needs a stack
            subprocess.run(["rm", "-rf", source, target], check=True)
        assert found == levels

    @pytest.fixture
    def small_disk(self, tmp_path):
        if not IS_ROOT:
            pytest.skip("only root can mount a small disk")
        folder = tmp_path / "small"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("this machine mounts no tmpfs")
        yield folder
        subprocess.run(["umount", "-l", folder], check=True)

    def test_a_full_disk_is_said_in_words(self, source, small_disk):
        (source / "large").write_bytes(os.urandom(2 * 2**20))
        done = subprocess.run(
            [sys.executable, "-I", "-S", copytree.__file__, source, small_disk / "target"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (1, os.strerror(errno.ENOSPC))


def use(supervisor, script, **options):
    spec = supervisor.shell(script, mounts=(Mount("v1", name="data"),), **options)
    supervisor.ended(spec)
    return supervisor.log(spec)


def finished(supervisor, act):
    found = []
    supervisor.finish(lambda: found.append(act()))
    return found[-1]


def snapshot(supervisor, uid="s1"):
    driver = supervisor.driver
    return finished(
        supervisor, lambda: driver.ensure_snapshot(uid, volume_uid="v1", backing=FOLDER)
    )


def fill(folder):
    """Put so much into it that a copy can be met under way."""
    for number in range(3000):
        (folder / str(number)).write_text("x")


def names(supervisor):
    return {path.name for path in (supervisor.volumes / ".snapshots").iterdir()}


def copiers(supervisor):
    """Return the processes that copy for it; one may end while it is looked at."""
    found = []
    for pid in processes.descendants(supervisor.process.pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if b"copytree" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def state_of(pid):
    found = processes.stat(pid)
    return found[0] if found else "gone"


def met_under_way(supervisor, act, undo):
    """Begin a copy and stop its process in the middle; one that was over first is made again."""

    def meet():
        with contextlib.suppress(NotYet):
            act()
            undo()
        for pid in copiers(supervisor):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
            if (
                wait_for(lambda pid=pid: state_of(pid) in ("T", "Z", "gone") and state_of(pid))
                == "T"
            ):
                return pid
        return None

    return wait_for(meet)


def restore(supervisor, uid="s1"):
    driver = supervisor.driver
    finished(supervisor, lambda: driver.restore_snapshot(uid, volume_uid="v1", backing=FOLDER))


@real
class TestSnapshots:
    def test_its_contents_are_of_its_moment(self, supervisor):
        use(supervisor, "cd ~/volumes/data; echo one > a; mkdir d; echo two > d/b")
        assert snapshot(supervisor) == 8
        use(supervisor, "cd ~/volumes/data; echo changed > a; rm -r d; echo new > c")
        assert snapshot(supervisor) == 8  # made once
        restore(supervisor)
        said = use(supervisor, "cd ~/volumes/data; ls; cat a d/b; echo more >> a; cat a")
        assert said == "a\nd\none\ntwo\none\nmore\n"
        restore(supervisor)
        assert use(supervisor, "cat ~/volumes/data/a") == "one\n"

    def test_members_may_go_on_writing_after_a_restore(self, supervisor):
        use(supervisor, "echo one > ~/volumes/data/a", owner="alice")
        snapshot(supervisor)
        restore(supervisor)
        said = use(
            supervisor,
            "cd ~/volumes/data; echo two >> a; echo x > new; cat a",
            owner="bob",
            project=supervisor.project,
        )
        assert said == "one\ntwo\n"

    def test_nothing_is_left_of_it(self, supervisor):
        use(supervisor, "echo one > ~/volumes/data/a")
        snapshot(supervisor)
        for _ in range(2):
            supervisor.driver.remove_snapshot("s1", volume_uid="v1", backing=FOLDER)
        kept = supervisor.volumes / ".snapshots"
        wait_for(lambda: list(kept.iterdir()) == [])
        with pytest.raises(InvalidSpec, match="no such snapshot"):
            supervisor.driver.restore_snapshot("s1", volume_uid="v1", backing=FOLDER)

    def test_a_restore_waits_for_who_uses_it(self, supervisor):
        use(supervisor, "echo one > ~/volumes/data/a")
        snapshot(supervisor)
        spec = supervisor.shell("sleep 60", mounts=(Mount("v1", name="data"),))
        supervisor.ready(spec)
        with pytest.raises(NotYet, match="uses it"):
            supervisor.driver.restore_snapshot("s1", volume_uid="v1", backing=FOLDER)
        supervisor.remove(spec.uid)
        restore(supervisor)

    def test_c8_nor_is_it_put_back_under_work_that_began_meanwhile(self, ordinary):
        ordinary.driver.ensure_volume("v1", project="p", owner="")
        fill(ordinary.volumes / "v1")
        snapshot(ordinary)
        (ordinary.volumes / "v1/0").write_text("newer")
        copier = met_under_way(
            ordinary,
            lambda: ordinary.driver.restore_snapshot("s1", volume_uid="v1", backing=FOLDER),
            lambda: (ordinary.volumes / "v1/0").write_text("newer"),
        )
        spec = ordinary.shell("sleep 60", mounts=(Mount("v1", name="data"),))
        ordinary.ready(spec)
        os.kill(copier, signal.SIGCONT)
        wait_for(lambda: not copiers(ordinary))
        wait_for(lambda: names(ordinary) == {"s1", "s1.size"})
        assert (ordinary.volumes / "v1/0").read_text() == "newer"
        ordinary.remove(spec.uid)
        restore(ordinary)
        assert (ordinary.volumes / "v1/0").read_text() == "x"

    def test_what_is_not_there_is_refused(self, supervisor):
        driver = supervisor.driver
        for uid, volume in (("s1", "v9"), ("../s", "v1"), ("s1", "../v"), (".gone-x", "v1")):
            with pytest.raises(InvalidSpec):
                driver.ensure_snapshot(uid, volume_uid=volume, backing=FOLDER)

    def test_which_volumes_can_be_copied(self, ordinary):
        kinds = ("", "directory", "nfs", "nfs-csi", "storage-class")
        can = {kind: ordinary.driver.can_snapshot(Backing(kind)) for kind in kinds}
        assert can == {kind: kind in ("", "directory") for kind in kinds}

    def test_the_supervisor_answers_while_it_copies(self, ordinary):
        ordinary.driver.ensure_volume("v1", project="p", owner="")
        fill(ordinary.volumes / "v1")
        copier = met_under_way(
            ordinary,
            lambda: ordinary.driver.ensure_snapshot("s1", volume_uid="v1", backing=FOLDER),
            lambda: ordinary.driver.remove_snapshot("s1", volume_uid="v1", backing=FOLDER),
        )

        def answers_within():
            begun = time.monotonic()
            ordinary.driver.probe()
            return time.monotonic() - begun

        assert min(answers_within() for _ in range(5)) < 0.5  # the machine may be busy
        assert copiers(ordinary) == [copier]
        os.kill(copier, signal.SIGCONT)
        assert snapshot(ordinary) == 3000

    def test_an_error_is_told_and_may_be_tried_again(self, ordinary):
        ordinary.driver.ensure_volume("v1", project="p", owner="")
        closed = ordinary.volumes / "v1/closed"
        closed.mkdir(mode=0o700)
        if IS_ROOT:  # the supervisor is nobody here
            closed.chmod(0o700)
        else:
            closed.chmod(0)
        with pytest.raises(DriverError, match="could not be copied"):
            snapshot(ordinary)
        wait_for(lambda: names(ordinary) == set())  # half a copy takes no room either
        closed.chmod(0o755)
        if IS_ROOT:
            os.chown(closed, 65534, 65534)
        assert snapshot(ordinary) == 0


def test_what_a_cancelled_copy_left_is_put_aside_before_the_emptying_is_asked_for(
    tmp_path, monkeypatch
):
    endless = "import os, sys, time; os.mkdir(sys.argv[2]); time.sleep(600)"
    monkeypatch.setattr("runtime.drivers.local.snapshots._COPY", (sys.executable, "-c", endless))
    machine = Machine(tmp_path / "state", tmp_path / "volumes", tmp_path / "environments")
    snapshots, left = Snapshots(machine), []
    (tmp_path / "volumes/v1").mkdir(parents=True)
    snapshots.make()
    snapshots.swept = lambda: left.extend(path.name[:6] for path in snapshots.folder.iterdir())

    async def copy_and_cancel():
        with pytest.raises(Refused):
            snapshots.ensure("s1", "v1")
        while not list(snapshots.folder.iterdir()):  # noqa: ASYNC110 - half a copy is there
            await asyncio.sleep(0.001)
        snapshots.remove("s1")
        await snapshots.close()

    asyncio.run(copy_and_cancel())
    assert left == [".gone-"]


def test_a_copy_that_is_cancelled_as_it_ends_is_cancelled(tmp_path, monkeypatch):
    """The process has gone and was not told of yet: it can't be killed any more."""

    class Over:
        async def communicate(self):
            await asyncio.Event().wait()

        def kill(self):
            raise ProcessLookupError

        async def wait(self):
            return 0

    async def over(*_words, **_options):
        return Over()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", over)
    machine = Machine(tmp_path / "state", tmp_path / "volumes", tmp_path / "environments")
    (tmp_path / "volumes/v1").mkdir(parents=True)

    async def copy_and_cancel():
        snapshots = Snapshots(machine)
        snapshots.make()
        with pytest.raises(Refused):
            snapshots.ensure("s1", "v1")
        await asyncio.sleep(0)
        snapshots.remove("s1")
        await snapshots.close()
        return await asyncio.gather(*snapshots._running.values(), return_exceptions=True)

    (told,) = asyncio.run(copy_and_cancel())
    assert isinstance(told, asyncio.CancelledError)


@pytest.mark.root
@real
def test_c8_copies_are_closed_to_everybody(rooted):
    use(rooted, "echo secret > ~/volumes/data/a")
    snapshot(rooted)
    spy = rooted.shell(f"cat {rooted.volumes}/.snapshots/s1/a; ls {rooted.volumes}/.snapshots")
    rooted.ended(spy)
    said = rooted.log(spy)
    assert "secret" not in said
    assert said.count("Permission denied") + said.count("No such file") == 2
    kept = (rooted.volumes / ".snapshots").stat()  # also for who sees the folder
    assert (kept.st_mode & 0o777, kept.st_uid) == (0o700, 0)


@real
@pytest.mark.parametrize("point", ["snapshot-copied", "snapshot-kept"])
def test_e1_killed_while_a_copy_is_made(point, make_supervisor):
    supervisor = make_supervisor("ordinary", killpoint=f"supervisor-{point}")
    supervisor.driver.ensure_volume("v1", project="p", owner="")
    (supervisor.volumes / "v1/a").write_text("one")
    with pytest.raises((NotYet, Unreachable)):
        supervisor.driver.ensure_snapshot("s1", volume_uid="v1", backing=FOLDER)
    wait_for(lambda: supervisor.is_dead)
    supervisor.start()
    assert snapshot(supervisor) == 3
    names = {p.name for p in (supervisor.volumes / ".snapshots").iterdir()}
    assert {n for n in names if not n.startswith(".gone-")} == {"s1", "s1.size"}


@real
@pytest.mark.parametrize("point", ["snapshot-read", "snapshot-exchanged"])
def test_e1_killed_while_it_is_put_back(point, make_supervisor):
    supervisor = make_supervisor("ordinary")
    supervisor.driver.ensure_volume("v1", project="p", owner="")
    (supervisor.volumes / "v1/a").write_text("one")
    snapshot(supervisor)
    (supervisor.volumes / "v1/a").write_text("changed")
    supervisor.restart(killpoint=f"supervisor-{point}")
    with pytest.raises((NotYet, Unreachable)):
        supervisor.driver.restore_snapshot("s1", volume_uid="v1", backing=FOLDER)
    wait_for(lambda: supervisor.is_dead)
    there = (supervisor.volumes / "v1/a").read_text()
    assert there == ("changed" if point == "snapshot-read" else "one")
    supervisor.start()
    restore(supervisor)
    assert (supervisor.volumes / "v1/a").read_text() == "one"
    wait_for(lambda: not list((supervisor.volumes / ".snapshots").glob(".[gn]*")))


@real
class TestMoves:
    def test_what_is_shared_goes_to_another_project(self, supervisor):
        use(supervisor, "echo one > ~/volumes/data/a", owner="alice")
        other = "another" + supervisor.project
        for _ in range(2):
            supervisor.driver.move_volume("v1", project=other, owner="", backing=FOLDER)
        said = use(supervisor, "cd ~/volumes/data; echo 2 >> a; cat a", owner="c", project=other)
        assert said == "one\n2\n"

    def test_a_home_stays(self, supervisor):
        assert supervisor.driver.can_move(FOLDER)
        with pytest.raises(InvalidSpec):
            supervisor.driver.move_volume("v1", project="p", owner="alice", backing=FOLDER)
