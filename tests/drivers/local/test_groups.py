"""A group is so many processes of one workload: told of each other, limited each, ended together."""

import json
import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from runtime import training
from runtime.drivers.local import processes
from runtime.protocol import InvalidSpec, NotYet, Seen
from runtime.spec import PodGroup, RetryPolicy
from tests.drivers.local.harness import PYTHON, processes_of, wait_for

pytestmark = pytest.mark.real

PLACE = (
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "BERTH_REPLICA",
    "BERTH_HOSTS",
    "CUDA_VISIBLE_DEVICES",
)
MEETS = """
import json, os, socket, sys, time
told = dict(os.environ)
where = (told["MASTER_ADDR"], int(told["MASTER_PORT"]))
if told["RANK"] == "0":
    with socket.create_server(where) as door:
        for _ in range(int(told["WORLD_SIZE"]) - 1):
            guest = door.accept()[0]
            guest.sendall(b"welcome")
            guest.close()
else:
    while True:
        try:
            with socket.create_connection(where) as met:
                told["said"] = met.recv(64).decode()
            break
        except OSError:
            time.sleep(0.05)
print("told=" + json.dumps(told), flush=True)
"""


def group(supervisor, script, replicas=2, **options):
    more = {"once": True, "kind": "job", "groups": (PodGroup("worker", replicas, meets=True),)}
    return supervisor.shell(script, **{**more, "stop_grace_s": 1.0, **options})


def parts(spec):
    return [processes_of(f"{spec.uid}.{n}") for n in range(spec.replicas)]


def log_of(supervisor, spec, replica):
    return supervisor.driver.read_log(spec.uid, replica=replica)[0].decode()


def test_they_meet_where_they_are_told_and_share_the_gpus(supervisor):
    devices = tuple(f"GPU-{n}" for n in range(4))
    made = group(supervisor, "", devices=devices)
    size = replace(made.resources, gpus=2)
    spec = replace(made, command=(PYTHON, "-I", "-S", "-c", MEETS), resources=size)
    found = supervisor.ended(spec)
    assert (found.exit_code, [r.exit_code for r in found.replicas]) == (0, [0, 0])
    assert found.detail["devices"] == list(devices)
    told = []
    for number in range(2):
        line = next(x for x in log_of(supervisor, spec, number).splitlines() if "told=" in x)
        told.append(json.loads(line.partition("=")[2]))
    assert told[1]["said"] == "welcome"
    assert [[one[name] for name in PLACE] for one in told] == [
        ["0", "2", "127.0.0.1", "0", "127.0.0.1,127.0.0.1", "GPU-0,GPU-1"],
        ["1", "2", "127.0.0.1", "1", "127.0.0.1,127.0.0.1", "GPU-2,GPU-3"],
    ]
    assert "LOCAL_RANK" not in told[0]


def test_each_has_groups_of_its_own_and_use_is_summed(rooted):
    one, two = rooted.shell("sleep 60"), group(rooted, "sleep 60")
    rooted.ready(one)
    rooted.ready(two)
    folders = [
        set(Path(f"/proc/{min(found)}/cgroup").read_text().splitlines()) for found in parts(two)
    ]
    if any(two.uid in line for line in folders[0]):  # where this machine lets us make groups
        assert all(f"{two.uid}.0" in line for line in folders[0] if two.uid in line)
        assert all(f"{two.uid}.1" in line for line in folders[1] if two.uid in line)
        assert folders[0] != folders[1]
    used = rooted.driver.usage([one.uid, two.uid])
    assert used[two.uid]["memory_mib"] > used[one.uid]["memory_mib"] > 0


def test_one_that_fails_ends_the_others_and_its_end_is_the_wholes(supervisor):
    spec = group(supervisor, '[ "$RANK" = 1 ] && exit 7; sleep 600', replicas=3)
    found = supervisor.ended(spec)
    assert (found.exit_code, found.reason, found.message) == (7, "exit", "exit code 7")
    assert [(r.seen, r.reason) for r in found.replicas] == [
        (Seen.EXITED, "stopped"),
        (Seen.EXITED, "exit"),
        (Seen.EXITED, "stopped"),
    ]
    assert parts(spec) == [set(), set(), set()]


def test_while_the_others_end_it_is_no_end_yet(supervisor):
    script = (
        'while [ "$RANK" = 1 ]; do [ -e "$HOME/trapped" ] && exit 7; sleep .05; done; '
        """trap 'while [ ! -e "$HOME/go" ]; do sleep .05; done; exit 0' TERM; """
        'touch "$HOME/trapped"; while :; do sleep .1; done'
    )
    spec = group(supervisor, script, stop_grace_s=60.0)
    supervisor.driver.ensure(spec)
    found = supervisor.until(spec.uid, Seen.STOPPING, Seen.EXITED)
    assert (found.seen, found.exit_code) == (Seen.STOPPING, None)
    assert found.replicas[1].exit_code == 7
    (supervisor.home(spec) / "go").touch()
    assert supervisor.until(spec.uid, Seen.EXITED).exit_code == 7


def test_an_end_that_is_good_waits_for_the_others(supervisor):
    spec = group(
        supervisor, '[ "$RANK" = 0 ] && exit 0; while [ ! -e "$HOME/go" ]; do sleep .05; done'
    )
    supervisor.driver.ensure(spec)
    wait_for(lambda: supervisor.seen(spec.uid).replicas[0].seen == Seen.EXITED)
    found = supervisor.until(spec.uid, Seen.READY)
    assert [r.seen for r in found.replicas] == [Seen.EXITED, Seen.READY]
    (supervisor.home(spec) / "go").touch()
    assert supervisor.until(spec.uid, Seen.EXITED).exit_code == 0


def test_a_stop_ends_all_and_nothing_is_left_of_what_is_removed(supervisor):
    spec = group(supervisor, "sleep 600", replicas=3)
    supervisor.ready(spec)
    supervisor.stop(spec.uid)
    found = supervisor.seen(spec.uid)
    assert (found.seen, found.reason) == (Seen.EXITED, "stopped")
    supervisor.remove(spec.uid)
    assert supervisor.seen(spec.uid).seen == Seen.MISSING
    for folder in ("records", "spaces"):
        assert list((supervisor.state / folder).iterdir()) == []


def test_a_smaller_launch_leaves_nothing_of_the_larger(supervisor):
    spec = group(supervisor, "exit 0", replicas=3)
    supervisor.ended(spec)
    again = group(supervisor, "sleep 60", uid=spec.uid, launch=2, mounts=spec.mounts)
    assert len(supervisor.ready(again).replicas) == 2
    names = sorted(folder.name for folder in (supervisor.state / "records").iterdir())
    assert names == [f"{spec.uid}.0", f"{spec.uid}.1"]
    with pytest.raises(NotYet):
        supervisor.driver.ensure(group(supervisor, "exit 0", uid=spec.uid, launch=3, replicas=1))


def test_e1_a_supervisor_that_was_killed_finds_all_parts_and_ends_them_together(supervisor):
    script = 'while [ "$RANK" = 1 ]; do [ -e "$HOME/go" ] && exit 7; sleep .05; done; sleep 600'
    spec = group(supervisor, script, replicas=3)
    before = supervisor.ready(spec)
    living = [min(found) for found in parts(spec)]
    supervisor.restart()
    assert [found.uid for found in supervisor.driver.list_owned()] == [spec.uid]
    assert [min(found) for found in parts(spec)] == living
    (supervisor.home(spec) / "go").touch()
    found = supervisor.until(spec.uid, Seen.EXITED)
    assert (found.exit_code, found.started_at) == (7, before.started_at)
    assert [r.reason for r in found.replicas] == ["stopped", "exit", "stopped"]


def test_e1_one_that_failed_while_no_supervisor_ran_ends_the_others(supervisor):
    spec = group(supervisor, '[ "$RANK" = 1 ] && sleep 1 && exit 7; sleep 600')
    supervisor.ready(spec)
    supervisor.kill()
    record = supervisor.state / "records" / f"{spec.uid}.1" / "exit.json"
    wait_for(record.exists)
    supervisor.start()
    assert supervisor.until(spec.uid, Seen.EXITED).exit_code == 7
    assert parts(spec) == [set(), set()]


def test_e1_what_was_made_in_part_is_made_whole(supervisor):
    spec = group(supervisor, "sleep 600")
    supervisor.ready(spec)
    first = parts(spec)[0]
    supervisor.kill()
    folder = supervisor.state / "records" / f"{spec.uid}.1"
    shim = json.loads((folder / "shim.json").read_text())
    for pid in (shim["pid"], *parts(spec)[1]):
        wait_for(lambda pid=pid: _killed(pid))
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    supervisor.start()
    assert supervisor.seen(spec.uid).seen == Seen.MISSING
    assert supervisor.ready(spec).replicas[1].seen == Seen.READY
    assert parts(spec)[0] == first  # who was there goes on


def _killed(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    return processes.stat(pid) is None


def test_a_watch_tells_of_the_whole_only(supervisor):
    spec = group(supervisor, "sleep 1; exit 0")
    over = []
    watch = supervisor.driver.watch(stop=lambda: bool(over))
    assert next(watch) == []
    supervisor.driver.ensure(spec)
    told = []
    for batch in watch:
        told += batch
        if told and told[-1].seen == Seen.EXITED:
            break
    assert {found.uid for found in told} == {spec.uid}
    versions = [found.version for found in told]
    assert versions == sorted(versions)
    over.append(1)


# -- attempts ------------------------------------------------------------------------------------

COUNTS = 'echo "$SECRET" >> "$HOME/tries"; '


def tries(supervisor, spec):
    return (supervisor.home(spec) / "tries").read_text().split()


def test_an_attempt_has_the_secrets_again_and_the_pause_between_is_no_end(supervisor):
    spec = supervisor.shell(
        COUNTS + 'echo again; [ "$(wc -l < "$HOME/tries")" = 3 ] && exit 0; exit 75',
        once=True,
        retry=RetryPolicy(5, backoff_s=0.3, on=(75,)),
        secret_env=lambda: {"SECRET": "s3cret"},
    )
    supervisor.driver.ensure(spec)
    found = supervisor.until(spec.uid, Seen.STARTING)
    assert (found.reason, found.message, found.exit_code) == ("tried-again", "exit code 75", None)
    found = supervisor.until(spec.uid, Seen.EXITED)
    assert (found.exit_code, found.launch) == (0, 1)
    assert tries(supervisor, spec) == ["s3cret"] * 3
    supervisor.driver.ensure(spec)  # an end is an end
    time.sleep(0.5)
    assert tries(supervisor, spec) == ["s3cret"] * 3


def test_attempts_are_used_up(supervisor):
    spec = supervisor.shell(
        COUNTS + "exit 1",
        once=True,
        retry=RetryPolicy(2, backoff_s=0.1),
        secret_env=lambda: {"SECRET": "x"},
    )
    assert supervisor.ended(spec).exit_code == 1
    assert tries(supervisor, spec) == ["x", "x"]


def test_a_stop_between_two_attempts_is_the_end(supervisor):
    spec = supervisor.shell(
        COUNTS + "exit 1",
        once=True,
        retry=RetryPolicy(2, backoff_s=60),
        secret_env=lambda: {"SECRET": "x"},
    )
    supervisor.driver.ensure(spec)
    supervisor.until(spec.uid, Seen.STARTING)
    supervisor.stop(spec.uid)
    assert supervisor.seen(spec.uid).exit_code == 1
    assert tries(supervisor, spec) == ["x"]


def test_a_group_is_tried_again_as_a_whole(supervisor):
    script = 'echo "$RANK" >> "$HOME/ran"; [ -e "$HOME/tried" ] && exit 0; [ "$RANK" = 0 ] && sleep 600; '
    spec = group(
        supervisor,
        script + 'until grep -q 0 "$HOME/ran"; do sleep .05; done; touch "$HOME/tried"; exit 7',
        retry=RetryPolicy(2, backoff_s=0.1),
    )
    found = supervisor.ended(spec)
    assert (found.exit_code, [r.exit_code for r in found.replicas]) == (0, [0, 0])
    assert sorted((supervisor.home(spec) / "ran").read_text().split()) == ["0", "0", "1", "1"]


def test_without_the_secrets_of_its_start_nothing_is_tried_again(supervisor):
    spec = supervisor.shell("exit 1", once=True, retry=RetryPolicy(2, backoff_s=60))
    supervisor.driver.ensure(spec)
    supervisor.until(spec.uid, Seen.STARTING)
    supervisor.restart()
    assert supervisor.until(spec.uid, Seen.EXITED).exit_code == 1


# -- what is refused -----------------------------------------------------------------------------


def test_what_goes_on_has_no_replicas_and_what_ends_not_too_many(ordinary):
    server = ordinary.server(groups=(PodGroup(replicas=2),))
    for spec in (server, group(ordinary, "true", replicas=5000)):
        with pytest.raises(InvalidSpec):
            ordinary.driver.ensure(spec)
        assert ordinary.seen(spec.uid).seen == Seen.MISSING


def test_a_uid_that_looks_like_a_part_is_refused(ordinary):
    with pytest.raises(InvalidSpec):
        ordinary.driver.ensure(ordinary.shell("true", uid="a.1"))


KEEPS = """
set -e
mkdir "$BERTH_CHECKPOINTS/.$RANK" && echo "of $RANK" >"$BERTH_CHECKPOINTS/.$RANK/step"
[ "$RANK" = 0 ] || mv "$BERTH_CHECKPOINTS/.1" "$BERTH_CHECKPOINTS/at-1"
"""


def test_g13_the_replicas_of_a_job_share_its_checkpoints_and_the_next_start_begins_there(
    supervisor,
):
    spec = group(supervisor, KEEPS)
    found = supervisor.ended(spec)
    assert [one.exit_code for one in found.replicas] == [0, 0]
    read = ("/bin/sh", "-c", 'cat "$BERTH_CHECKPOINT_LATEST/step"')
    again = replace(spec, launch=2, command=read)
    supervisor.driver.ensure(again)
    supervisor.until(spec.uid, Seen.EXITED)
    assert [log_of(supervisor, spec, n) for n in (0, 1)] == ["of 1\n"] * 2
    supervisor.finish(lambda: supervisor.driver.remove(spec.uid))
    assert list((supervisor.state / "spaces").glob(f"{spec.uid}*")) == []


# The server has spoken before the others end: they take it down with them.
ROLES = """
printf "%s" "$TF_CONFIG"
[ "$BERTH_ROLE" != ps ] || { touch "$HOME/serves"; exec sleep 600; }
while [ ! -e "$HOME/serves" ]; do sleep .05; done
"""


def test_tensorflow_is_told_its_role_and_servers_end_with_the_workers(supervisor):
    roles = training.groups("tensorflow", 2, 1)
    found = supervisor.ended(group(supervisor, ROLES, groups=roles, framework="tensorflow"))
    assert (found.seen, found.exit_code, found.reason) == (Seen.EXITED, 0, "exit")
    told = [(one.role, one.reason) for one in found.replicas]
    assert told == [("chief", "exit"), ("worker", "exit"), ("ps", "stopped")]
    uid = SimpleNamespace(uid=found.uid)
    said = [json.loads(log_of(supervisor, uid, number)) for number in range(3)]
    assert [one["task"] for one in said] == [
        {"type": role, "index": 0} for role in ("chief", "worker", "ps")
    ]
    places = [place for one in said[0]["cluster"].values() for place in one]
    assert len(set(places)) == 3


def test_an_evaluator_ends_with_those_that_it_evaluates(supervisor):
    script = ROLES.replace("!= ps", "!= evaluator")
    roles = training.groups("tensorflow", 3, evaluator=True)
    found = supervisor.ended(group(supervisor, script, groups=roles, framework="tensorflow"))
    assert (found.seen, found.exit_code, found.reason) == (Seen.EXITED, 0, "exit")
    told = [(one.role, one.reason) for one in found.replicas]
    assert told == [("chief", "exit"), ("worker", "exit"), ("evaluator", "stopped")]
    said = [json.loads(log_of(supervisor, SimpleNamespace(uid=found.uid), n)) for n in range(3)]
    assert said[2]["task"] == {"type": "evaluator", "index": 0}
    assert [set(one["cluster"]) for one in said] == [{"chief", "worker"}] * 3


@pytest.mark.skipif(not shutil.which("mpirun"), reason="Open MPI is not installed here")
def test_mpirun_has_the_room_of_all_slots_and_ends_with_one_that_fails(supervisor):
    slots = ("mpirun", "-n", "3", "--host", "localhost:3")
    rank = '[ "$OMPI_COMM_WORLD_RANK" = "$1" ] && exit 9; echo "slot=$OMPI_COMM_WORLD_RANK"'
    for fails, code in (("none", 0), ("1", 9)):
        words = training.mpirun(("sh", "-c", rank, "x", fails), 3, *slots[3:])
        assert words[:5] == slots
        launcher = training.groups("mpi", 1)
        spec = replace(group(supervisor, "", groups=launcher, framework="mpi"), command=words)
        found = supervisor.ended(spec)
        assert found.exit_code == code, log_of(supervisor, spec, 0)
        assert [one.role for one in found.replicas] == ["launcher"]
    said = sorted(x for x in log_of(supervisor, spec, 0).splitlines() if x.startswith("slot="))
    assert set(said) <= {"slot=0", "slot=2"}
