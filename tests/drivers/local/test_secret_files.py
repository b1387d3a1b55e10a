"""Files that only the workload can read: there while it runs, nowhere afterwards."""

import contextlib
import json
import os
import signal
import stat
import uuid
from pathlib import Path

import pytest

from runtime.drivers.local.records import Record, Trash
from runtime.drivers.local.users import SecretFolders
from runtime.protocol import InvalidSpec, NotYet, Seen
from runtime.spec import Probe
from tests.drivers.local.harness import PYTHON, SERVER, processes_of, wait_for

pytestmark = pytest.mark.real
CANARY = "canary-5f1e-secret"
FILES = {"plan.json": json.dumps({"key": CANARY}), ".boto": "x = 1\n"}


def hold(supervisor, **options):
    """A workload that says where its files are and stays."""
    options.setdefault("secret_files", lambda: FILES)
    return supervisor.shell(
        "ls -la {secrets}; cat $WHERE/plan.json; echo; exec sleep 60",
        env={"WHERE": "{secrets}"},
        **options,
    )


def folder_of(supervisor) -> Path:
    return Path("/dev/shm") / (supervisor.state / "secrets-folder").read_text()


def texts_under(folder: Path) -> str:
    """Return what lies there, but for logs: a workload itself may say a secret."""
    texts = []
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # written beside its name, and renamed
            if path.is_file() and not path.is_symlink() and not path.name.startswith("log-"):
                texts.append(path.read_bytes().decode(errors="replace"))
    return "\n".join(texts)


def test_a2_they_are_read_inside_and_lie_on_no_disk(supervisor):
    spec = hold(supervisor)
    supervisor.ready(spec)
    said = wait_for(lambda: CANARY in supervisor.log(spec) and supervisor.log(spec))
    assert said.count("-r--------") == 2
    lying = folder_of(supervisor) / spec.uid
    assert {path.name for path in lying.iterdir()} == set(FILES)
    assert lying.stat().st_mode & 0o777 == 0o700
    first = min(wait_for(lambda: processes_of(spec.uid)))
    assert lying.stat().st_uid == Path(f"/proc/{first}").stat().st_uid
    spec_on_disk = (supervisor.state / "records" / spec.uid / "spec.json").read_text()
    assert "{secrets}" in spec_on_disk
    assert CANARY not in texts_under(supervisor.folder)
    assert CANARY not in json.dumps(supervisor.driver._client.ask("list"))


def test_those_that_ask_for_it_hold_their_folder_and_what_work_makes_there_goes_too(supervisor):
    files = {"placed": "{secrets}/plan.json {memory}", "kept": "{secrets} {memory} {port}"}
    spec = supervisor.shell(
        "cd {secrets}; cat placed; echo; cat kept; echo; mkdir state && echo x > state/key; sleep 60",
        secret_files=lambda: files,
        placed_files=("placed", "not-there"),
    )
    supervisor.ready(spec)
    lying = folder_of(supervisor) / spec.uid
    wait_for((lying / "state/key").exists)
    assert (lying / "placed").read_text() == f"{lying}/plan.json {lying}"
    assert (lying / "kept").read_text() == files["kept"]
    wait_for(lambda: f"{lying}/plan.json {lying}" in supervisor.log(spec))
    supervisor.driver.refresh_secrets(spec)
    assert (lying / "placed").read_text() == f"{lying}/plan.json {lying}"
    assert not (lying / "state").exists()
    supervisor.stop(spec.uid)
    wait_for(lambda: not lying.exists())
    supervisor.remove(spec.uid)
    wait_for(lambda: not any(folder_of(supervisor).iterdir()))


def test_they_go_with_the_workload_and_come_anew_with_a_launch(supervisor):
    made = []

    def files():
        made.append(1)
        return {"plan.json": f"launch {len(made)}"}

    spec = hold(supervisor, secret_files=files)
    supervisor.ready(spec)
    lying = folder_of(supervisor) / spec.uid
    wait_for((lying / "plan.json").exists)
    supervisor.stop(spec.uid)
    wait_for(lambda: not lying.exists())
    again = hold(supervisor, uid=spec.uid, launch=2, mounts=spec.mounts, secret_files=files)
    supervisor.ready(again)
    wait_for(lambda: "launch 2" in supervisor.log(again))
    assert {path.name for path in lying.iterdir()} == {"plan.json"}
    supervisor.remove(spec.uid)
    wait_for(lambda: not any(folder_of(supervisor).iterdir()))


def test_a_restart_of_the_supervisor_leaves_them_with_the_work(supervisor):
    script = "while [ ! -e $HOME/look ]; do sleep .05; done; cat {secrets}/plan.json; sleep 60"
    spec = supervisor.shell(script, secret_files=lambda: FILES)
    supervisor.ready(spec)
    lying = folder_of(supervisor) / spec.uid
    supervisor.restart()
    supervisor.until(spec.uid, Seen.READY)
    (supervisor.home(spec) / "look").touch()
    wait_for(lambda: CANARY in supervisor.log(spec))
    supervisor.kill()
    for pid in processes_of(spec.uid):
        with contextlib.suppress(ProcessLookupError):  # its parent takes the rest down
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not lying.exists())  # nobody but the workload's parent was there to do it
    supervisor.start()


@pytest.mark.parametrize("point", ["shim-ended", "shim-child-recorded", "shim-exit-recorded"])
def test_e1_a_killed_parent_leaves_no_secret(point, make_supervisor):
    supervisor = make_supervisor("ordinary", killpoint=point)
    spec = supervisor.shell("cat {secrets}/plan.json", secret_files=lambda: FILES)
    supervisor.driver.ensure(spec)
    supervisor.until(spec.uid, Seen.EXITED)
    wait_for(lambda: not any(folder_of(supervisor).iterdir()))


def test_e1_parent_and_supervisor_killed_leave_no_secret(make_supervisor):
    supervisor = make_supervisor("ordinary")
    spec = hold(supervisor)
    supervisor.ready(spec)
    lying = folder_of(supervisor) / spec.uid
    wait_for((lying / "plan.json").exists)
    supervisor.kill()
    parent = Record(supervisor.state / "records" / spec.uid).read("shim")["pid"]
    os.kill(parent, signal.SIGKILL)
    for pid in processes_of(spec.uid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert lying.exists()
    supervisor.start()
    supervisor.until(spec.uid, Seen.EXITED)
    wait_for(lambda: not lying.exists())


def test_a_second_try_on_another_port_has_them_too(ordinary):
    """The first attempt loses its port; the files are written for the next one again."""
    code = (
        "import os, socket, sys, time\n"
        "print(open(sys.argv[2] + '/plan.json').read(), flush=True)\n"
        "mark = os.environ['HOME'] + '/tried'\n"
        "if not os.path.exists(mark):\n"
        "    open(mark, 'w').close()\n"
        "    os.system(f'setsid {sys.executable} -I -S -c \"import socket, time; s = socket.socket();"
        " s.bind((\\'127.0.0.1\\', {sys.argv[1]})); s.listen(); time.sleep(30)\" & sleep 5')\n"
    )
    spec = ordinary.spec(
        (PYTHON, "-I", "-S", "-c", code + SERVER, "{port}", "{secrets}"),
        probe=Probe("/", 200),
        secret_files=lambda: FILES,
    )
    ordinary.driver.ensure(spec)
    wait_for(lambda: CANARY in ordinary.log(spec))
    ordinary.remove(spec.uid)


@pytest.mark.root
def test_c8_another_owner_reads_none(rooted):
    spec = hold(rooted)
    rooted.ready(spec)
    lying = folder_of(rooted) / spec.uid
    wait_for((lying / "plan.json").exists)
    spy = rooted.shell(f"cat {lying}/plan.json; ls {lying.parent} {lying}", owner="bob")
    rooted.ended(spy)
    said = rooted.log(spy)
    assert CANARY not in said
    assert said.count("Permission denied") == 3


@pytest.mark.parametrize(
    "files",
    [{"../x": "a"}, {"a/b": "a"}, {"": "a"}, {"..": "a"}, {"x\n": "a"}, {"big": "x" * 1_000_000}],
)
def test_what_can_not_be_a_file_is_refused_and_starts_nothing(ordinary, files):
    spec = ordinary.shell("true", secret_files=lambda: files)
    with pytest.raises(InvalidSpec, match="secret file"):
        ordinary.driver.ensure(spec)
    assert ordinary.seen(spec.uid).seen == Seen.MISSING


def test_the_socket_refuses_them_too(ordinary):
    """A client that does not check finds the same answer, without the secret in it."""
    spec = ordinary.shell("true")
    from runtime.drivers.local.driver import _wire

    odd = {"env": {}, "files": {}, "placed": 5}
    for secrets in (
        {"env": {}, "files": {"a/b": CANARY}},
        {"env": [CANARY]},
        [CANARY],
        CANARY,
        odd,
    ):
        with pytest.raises(InvalidSpec) as caught:
            ordinary.driver._client.ask("ensure", spec=_wire(spec), secrets=secrets)
        assert CANARY not in str(caught.value)


def test_a_folder_that_somebody_put_there_is_not_used(tmp_path):
    """Anybody may write to /dev/shm: a name that is taken by another is given up."""
    state = tmp_path / "state"
    state.mkdir()
    name = f"berth-taken-{uuid.uuid4().hex}"
    (state / "secrets-folder").write_text(name)
    link = Path("/dev/shm") / name
    link.symlink_to(tmp_path)
    try:
        folders = SecretFolders(state, Trash(state / "trash"), through=False)
        folders.make()
        assert folders.in_memory
        assert folders.folder != link
        assert stat.S_IMODE(folders.folder.stat().st_mode) == 0o700
        folders.close()
        assert not folders.folder.exists()
    finally:
        link.unlink()


def test_without_memory_they_lie_in_the_space_and_that_is_told(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    folders = SecretFolders(state, Trash(state / "trash"), through=False)
    folders.make(tmp_path)  # a disk
    assert not folders.in_memory
    space = tmp_path / "space"
    (space / "secrets").mkdir(parents=True)
    (space / "secrets/plan.json").write_text(CANARY)
    assert folders.of("uid", space) == space / "secrets"
    assert folders.drop("uid", space)
    assert not folders.drop("uid", space)
    assert list(space.iterdir()) == []


def test_a_launch_that_is_still_ending_makes_no_secret(ordinary):
    spec = hold(ordinary)
    ordinary.ready(spec)
    made = []
    again = hold(ordinary, uid=spec.uid, launch=2, secret_files=lambda: made.append(1) or FILES)
    with pytest.raises(NotYet):
        ordinary.driver.ensure(again)
    assert made == []


def test_d13_what_was_taken_away_is_gone_while_the_work_goes_on(supervisor):
    spec = hold(supervisor)
    before = supervisor.ready(spec)
    lying = folder_of(supervisor) / spec.uid
    fewer = hold(supervisor, uid=spec.uid, mounts=spec.mounts, secret_files=lambda: {".boto": "y"})
    for _ in range(2):
        supervisor.driver.refresh_secrets(fewer)
    assert {path.name: path.read_text() for path in lying.iterdir()} == {".boto": "y"}
    owner = Path(f"/proc/{before.detail['pid']}").stat().st_uid
    assert {path.stat().st_uid for path in (lying, *lying.iterdir())} == {owner}
    older = hold(supervisor, uid=spec.uid, launch=2)  # of a launch that does not run
    supervisor.driver.refresh_secrets(older)
    assert not (lying / "plan.json").exists()
    none = hold(supervisor, uid=spec.uid, secret_files=dict)
    supervisor.driver.refresh_secrets(none)
    assert not lying.exists()
    assert supervisor.seen(spec.uid).detail["pid"] == before.detail["pid"]
    supervisor.stop(spec.uid)
    supervisor.driver.refresh_secrets(hold(supervisor, uid=spec.uid))
    assert not lying.exists()
    supervisor.driver.refresh_secrets(hold(supervisor, uid="unknown"))
