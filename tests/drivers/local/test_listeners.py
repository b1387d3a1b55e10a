"""A port is told only when the workload itself listens on it."""

import os
import socket
import subprocess

import pytest

from runtime.drivers.local import listeners
from runtime.drivers.local.listeners import Listener
from runtime.protocol import Seen
from runtime.spec import Probe
from tests.drivers.local.harness import PYTHON, SERVER, processes_of, wait_for


def test_a_port_nobody_listens_on_is_nobodys():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        assert (
            listeners.judge(port, uid=os.getuid(), members=lambda: {os.getpid()}) == Listener.NOBODY
        )


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1", "::"])
def test_a_listener_of_a_member_is_its_own(host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as mine:
        mine.bind((host, 0))
        mine.listen()
        port = mine.getsockname()[1]
        assert listeners.judge(port, uid=os.getuid(), members=lambda: {os.getpid()}) == Listener.OWN


def test_a_listener_of_the_same_user_outside_the_workload_is_foreign():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert (
            listeners.judge(port, uid=os.getuid(), members=lambda: {os.getppid()})
            == Listener.FOREIGN
        )


def test_a_listener_of_another_user_is_foreign_even_when_held_by_a_member():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert listeners.judge(port, uid=4242, members=lambda: {os.getpid()}) == Listener.FOREIGN


@pytest.mark.parametrize("host", ["127.0.0.2", "::1"])
def test_a_stranger_at_another_address_can_not_spoil_a_port(host):
    with socket.socket() as mine:
        mine.bind(("127.0.0.1", 0))
        mine.listen()
        port = mine.getsockname()[1]
        family = "AF_INET6" if ":" in host else "AF_INET"
        code = (
            f"import socket, sys; s = socket.socket(socket.{family})\n"
            f"s.bind(({host!r}, {port})); s.listen(); print(1, flush=True); sys.stdin.read()"
        )
        with subprocess.Popen(
            [PYTHON, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as stranger:
            assert stranger.stdout.readline() == b"1\n"
            verdict = listeners.judge(port, uid=os.getuid(), members=lambda: {os.getpid()})
            stranger.stdin.close()
    assert verdict == Listener.OWN


def test_two_listeners_on_one_port_must_both_be_its_own():
    with socket.socket() as mine, socket.socket() as other:
        for one in (mine, other):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        mine.bind(("127.0.0.1", 0))
        mine.listen()
        port = mine.getsockname()[1]
        code = (
            "import socket, sys; s = socket.socket(); s.setsockopt(1, 15, 1)\n"
            f"s.bind(('127.0.0.1', {port})); s.listen(); print(1, flush=True); sys.stdin.read()"
        )
        child = subprocess.Popen(
            [PYTHON, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        child.stdout.readline()
        verdict = listeners.judge(port, uid=os.getuid(), members=lambda: {os.getpid()})
        child.communicate(b"")
    assert verdict == Listener.FOREIGN


def test_a_taken_port_is_not_chosen_and_a_full_range_is_none():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert listeners.choose_port(port, port, ()) is None
    assert listeners.choose_port(port, port, {port}) is None


THIEF = """
import socket, sys, time
while True:
    try:
        s = socket.socket(); s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(); break
    except OSError:
        time.sleep(0.005)
print("stolen", s.getsockname()[1], flush=True)
time.sleep(600)
"""


@pytest.mark.real
def test_a_stolen_port_gets_no_route_and_another_port_is_tried(supervisor):
    """The first start loses its port to a stranger; the second gets another one."""
    folder = supervisor.folder / "thief"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "steal").touch()
    script = (
        "import os,sys,time\n"
        f"flag={str(folder)!r}+'/steal'\n"
        "if os.path.exists(flag):\n"
        f"    open({str(folder)!r}+'/port','w').write(sys.argv[1]); os.unlink(flag); time.sleep(600)\n"
        + SERVER
    )
    spec = supervisor.spec((PYTHON, "-I", "-c", script, "{port}"), probe=Probe("/", 200))
    (folder / "steal").chmod(0o666)
    supervisor.driver.ensure(spec)
    wait_for(lambda: (folder / "port").exists() and (folder / "port").read_text())
    port = (folder / "port").read_text()
    thief = subprocess.Popen([PYTHON, "-c", THIEF, port], stdout=subprocess.PIPE)
    try:
        found = supervisor.until(spec.uid, Seen.READY)
        assert found.address != f"127.0.0.1:{port}"
        assert found.launch == 1
        assert len(processes_of(spec.uid)) == 1
    finally:
        thief.kill()
        thief.communicate()


@pytest.mark.real
def test_a_fixed_port_that_is_taken_ends_with_that_reason(supervisor):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = supervisor.ended(supervisor.server(port=port))
    assert found.reason == "port-hijacked"
    assert found.address == ""


@pytest.mark.real
def test_another_workload_of_the_same_owner_can_not_pose_as_this_one(supervisor):
    """Same user, other workload: told apart by who holds the socket."""
    thief = supervisor.spec((PYTHON, "-c", THIEF, "0"))  # one that is free
    supervisor.ready(thief)
    wait_for(lambda: supervisor.log(thief).endswith("\n"))
    port = int(supervisor.log(thief).removeprefix("stolen"))
    victim = supervisor.shell("sleep 600", port=port, probe=Probe("/", 200))
    assert supervisor.ended(victim).reason == "port-hijacked"


def test_the_kernels_answer_is_the_same_as_its_text_tables():
    with (
        socket.create_server(("127.0.0.1", 0)) as exact,
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as wide,
    ):
        for table, made in (("tcp", exact), ("tcp6", wide)):
            port = made.getsockname()[1]
            asked = listeners._asked(table, port)
            assert asked == listeners._read(table, port)
            assert [inode for _, _, inode in asked] == [os.fstat(made.fileno()).st_ino]
