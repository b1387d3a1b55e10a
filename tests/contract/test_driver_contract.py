"""What every driver promises, whatever stands behind it (see ``runtime/protocol.py``)."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from devcluster import katib
from runtime.capabilities.clusters import SupportsMetrics, SupportsWatch
from runtime.capabilities.experiments import (
    EXPERIMENT,
    ExperimentSpec,
    Proposal,
    SupportsExperiments,
    TrialEnd,
)
from runtime.capabilities.volumes import SupportsMoves, SupportsSnapshots, SupportsVolumes
from runtime.capabilities.workloads import (
    SupportsEvents,
    SupportsLogs,
    SupportsSecretRefresh,
    SupportsServing,
)
from runtime.drivers.fake import FakeDriver
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.protocol import ISOLATION, Driver, InvalidSpec, NotYet, Observation, Seen
from runtime.spec import (
    Backing,
    Mount,
    PodGroup,
    Probe,
    Resources,
    RetryPolicy,
    Serve,
    WorkloadSpec,
)
from runtime.training import KATIB
from tests.drivers.local.harness import PYTHON, SERVER, Supervisor, wait_for
from tests.support.cluster_state import lacking
from tests.support.shortest import shortest

FOLDER = Backing("directory")


@dataclass
class Subject:
    """A driver, and how to make things happen behind it."""

    driver: Driver
    command: tuple[str, ...]
    end: Callable[[str], None]  # ends a workload from outside, with exit code 3
    more: dict[str, object] = field(default_factory=dict)  # what each spec needs there
    timeout_s: float = 60.0
    measures_volumes: bool = True
    salt: str = ""  # volumes of different runs have different names where they outlive a run
    has_metrics: bool = True
    # Prepares that the next run of a uid ends with this code, and says what to run for that.
    ending: Callable[[str, int], tuple[str, ...]] = lambda _uid, code: (
        "/bin/sh",
        "-c",
        f"exit {code}",
    )

    # Prepares that each attempt ends with the next of these codes, where no script does.
    ends_in_turn: Callable[[str, list[int]], object] = lambda _uid, _codes: None
    # Prepares that its program tells so, where no script does.
    tells: Callable[[str, list[str]], object] = lambda _uid, _lines: None
    # Prepares that a group ends so, where no script does.
    ends_as: Callable[[str, int | None, int], object] = lambda _uid, _code, _replica: None

    def once(self, code: int, **options: object) -> WorkloadSpec:
        uid = str(options.pop("uid", "") or uuid.uuid4())
        command = self.ending(uid, code)
        given = {"once": True, "probe": None, "kind": "load", "uid": uid, "command": command}
        return self.spec(**{**given, **options})

    def twice(self, first: int, then: int, retry: RetryPolicy) -> WorkloadSpec:
        """One whose first attempt ends with ``first``, and the next with ``then``."""
        uid = str(uuid.uuid4())
        script = f'[ -e "$HOME/tried" ] && exit {then}; touch "$HOME/tried"; exit {first}'
        home = Mount(f"home-{uid[:8]}{self.salt}", "home")
        command = ("/bin/sh", "-c", script)
        made = self.once(first, uid=uid, retry=retry, mounts=(home,))
        self.ends_in_turn(uid, [first, then])
        return replace(made, command=command)

    def group(
        self,
        script: str,
        *,
        replicas: int,
        code: int | None = None,
        failing: int = 0,
        **more: object,
    ) -> WorkloadSpec:
        """So many replicas that say who they are and run ``script``, which ends with ``code``."""
        uid = str(more.pop("uid", "") or uuid.uuid4())
        self.ends_as(uid, code, failing)
        given = {
            "once": True,
            "probe": None,
            "kind": "job",
            "uid": uid,
            "command": ("/bin/sh", "-c", SAYS + script),
            "groups": (PodGroup("worker", replicas, meets=True),),
        }
        return self.spec(**{**given, **more})

    def serving(self, replicas: int, **options: object) -> WorkloadSpec:
        """So many that answer; ``more`` of it is what the driver needs for that."""
        return self.spec(**{"kind": "endpoint", "serve": Serve(replicas), **options})

    def scaled(self, spec: WorkloadSpec, replicas: int) -> Observation:
        """What is seen once so many of them answer, and no more are there."""
        wanted = replace(spec, serve=Serve(replicas))
        self.finish(lambda: self.driver.scale(wanted))

        def look() -> Observation | None:
            now = self.seen(spec.uid)
            ready = [one for one in now.replicas if one.seen == Seen.READY]
            return now if len(ready) == len(now.replicas) == replicas else None

        return wait_for(look, seconds=self.timeout_s)

    def spec(self, **options: object) -> WorkloadSpec:
        defaults: dict[str, object] = {
            "uid": str(uuid.uuid4()),
            "kind": "workspace",
            "name": "contract",
            "launch": 1,
            "generation": 1,
            "project": str(uuid.uuid4()),
            "owner": str(uuid.uuid4()),
            "environment": "",
            "command": self.command,
            "resources": Resources(cpu_milli=1000, memory_mib=256, pids=100),
            "probe": Probe("/", 200),
            "stop_grace_s": 2.0,
            **self.more,
        }
        made = WorkloadSpec(**{**defaults, **options})
        return replace(made, name=f"c-{made.uid[:12]}") if made.namespace else made

    def seen(self, uid: str) -> Observation:
        return self.driver.observe([uid])[uid]

    def until(self, uid: str, *wanted: Seen) -> Observation:
        def look() -> Observation | None:
            now = self.seen(uid)
            return now if now.seen in wanted else None

        return wait_for(look, seconds=self.timeout_s)

    def ready(self, spec: WorkloadSpec) -> Observation:
        self.driver.ensure(spec)
        return self.until(spec.uid, Seen.READY)

    def finish(self, act: Callable[[], object]) -> None:
        def done() -> bool:
            try:
                act()
            except NotYet as later:
                assert 0 < later.retry_in < 60  # noqa: PT017 - and go on
                return False
            return True

        wait_for(done, seconds=self.timeout_s)

    def stopped(self, uid: str) -> Observation:
        self.finish(lambda: self.driver.stop(uid, grace_s=2))
        return self.until(uid, Seen.EXITED)


def _fake() -> Iterator[Subject]:
    driver = FakeDriver()

    def ending(uid: str, code: int) -> tuple[str, ...]:
        driver.script(uid, exit_after_s=0, exit_code=code)
        return ("end",)

    def end(uid: str) -> None:
        driver.exit(uid, code=3, reason="exit")

    def ends_in_turn(uid: str, codes: list[int]) -> None:
        driver.script(uid, exit_after_s=0, exit_codes=codes)

    def ends_as(uid: str, code: int | None, replica: int) -> None:
        if code is not None:
            driver.script(uid, exit_after_s=0, exit_code=code, exit_replica=replica)

    def tells(uid: str, lines: list[str]) -> None:
        driver.tell_events(uid, 1, "".join(f"{line}\n" for line in lines))

    yield Subject(
        driver,
        ("serve", "{port}"),
        end,
        ending=ending,
        tells=tells,
        ends_as=ends_as,
        ends_in_turn=ends_in_turn,
    )


def _local() -> Iterator[Subject]:
    supervisor = Supervisor("ordinary").start()
    server = SERVER + "\n"
    ending = (
        "import os, threading, time\n"
        "def watch():\n"
        "    while not os.path.exists(os.environ['HOME'] + '/end'): time.sleep(.02)\n"
        "    os._exit(3)\n"
        "threading.Thread(target=watch, daemon=True).start()\n"
    )

    def end(uid: str) -> None:
        (supervisor.state / "spaces" / uid / "home" / "end").touch()

    yield Subject(supervisor.driver, (PYTHON, "-I", "-S", "-c", ending + server, "{port}"), end)
    supervisor.close()


def _kubernetes(request: pytest.FixtureRequest) -> Iterator[Subject]:
    from tests.drivers.kubernetes.harness import cluster_subject

    yield from cluster_subject(request, Subject)


@pytest.fixture(
    params=[
        pytest.param(_fake, id="fake"),
        pytest.param(_local, marks=pytest.mark.real, id="local"),
        pytest.param(_kubernetes, marks=pytest.mark.cluster, id="kubernetes"),
    ]
)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    if request.param is _kubernetes:
        yield from _kubernetes(request)
    else:
        yield from request.param()


# -- ensure and observe ----------------------------------------------------------------------


def test_a_missing_thing_is_an_observation_not_an_error(subject):
    unknown = [str(uuid.uuid4()) for _ in range(3)]
    found = subject.driver.observe(unknown)
    assert list(found) == unknown
    assert all(o.seen == Seen.MISSING and o.uid == uid for uid, o in found.items())
    assert dict(subject.driver.observe([])) == {}


def test_ensure_leads_to_ready_with_an_address(subject):
    found = subject.ready(subject.spec())
    host, _, port = found.address.rpartition(":")
    assert host
    assert 0 < int(port) < 65536
    assert found.launch == 1
    assert found.kind == "workspace"
    assert found.started_at <= found.ready_at <= time.time()
    assert found.exit_code is None


def test_ensure_returns_json_and_does_not_wait(subject):
    import json

    made = []
    assert shortest(lambda: made.append(subject.driver.ensure(subject.spec()))) < 2
    for reference in made:
        assert json.loads(json.dumps(dict(reference))) == dict(reference)


def test_ensure_again_changes_nothing(subject):
    made = []
    spec = subject.spec(secret_env=lambda: made.append(1) or {"A": "b"})
    before = subject.ready(spec)
    for _ in range(3):
        subject.driver.ensure(spec)
    assert subject.seen(spec.uid) == before
    assert made == [1]


def test_an_older_launch_changes_nothing(subject):
    spec = subject.spec(launch=5)
    before = subject.ready(spec)
    subject.driver.ensure(subject.spec(uid=spec.uid, launch=4))
    assert subject.seen(spec.uid) == before


def settled(subject, uid):
    """Return what is seen once nothing is added: a cluster tells of one end in several parts."""

    def same():
        first = subject.seen(uid)
        time.sleep(1.5)
        return first if subject.seen(uid) == first else None

    return wait_for(same)


def test_a_launch_that_ended_is_not_started_again(subject):
    spec = subject.spec()
    subject.ready(spec)
    subject.end(spec.uid)
    subject.until(spec.uid, Seen.EXITED)
    ended = settled(subject, spec.uid)
    subject.driver.ensure(spec)
    assert subject.seen(spec.uid) == ended
    assert (ended.exit_code, ended.address) == (3, "")
    assert ended.ended_at is not None


def test_a_higher_launch_replaces_one_that_ended(subject):
    spec = subject.spec()
    subject.ready(spec)
    subject.end(spec.uid)
    subject.until(spec.uid, Seen.EXITED)
    again = subject.spec(
        uid=spec.uid,
        launch=2,
        command=subject.command,
        mounts=(Mount(f"home-b{subject.salt}", "home"),),
    )
    found = subject.ready(again)
    assert (found.launch, found.exit_code, found.ended_at) == (2, None, None)


def test_a_higher_launch_waits_for_a_living_older_one(subject):
    spec = subject.spec()
    subject.ready(spec)
    again = subject.spec(uid=spec.uid, launch=2)
    with pytest.raises(NotYet):
        subject.driver.ensure(again)
    subject.finish(lambda: subject.driver.ensure(again))
    assert subject.until(spec.uid, Seen.READY).launch == 2


# -- stop and remove -------------------------------------------------------------------------


def test_stop_ends_it_and_stays_idempotent(subject):
    spec = subject.spec()
    subject.ready(spec)
    ended = subject.stopped(spec.uid)
    assert ended.launch == 1
    assert ended.address == ""
    subject.driver.stop(spec.uid, grace_s=0)
    assert subject.seen(spec.uid).seen == Seen.EXITED


def test_stop_and_remove_of_what_is_not_there_succeed(subject):
    subject.driver.stop(str(uuid.uuid4()), grace_s=1)
    subject.driver.remove(str(uuid.uuid4()))


@pytest.mark.parametrize("first", ["alive", "ended"])
def test_remove_leaves_nothing(subject, first):
    spec = subject.spec()
    subject.ready(spec)
    if first == "ended":
        subject.stopped(spec.uid)
    subject.finish(lambda: subject.driver.remove(spec.uid))
    assert subject.seen(spec.uid).seen == Seen.MISSING
    assert spec.uid not in [o.uid for o in subject.driver.list_owned()]
    subject.driver.remove(spec.uid)


def test_after_removal_the_same_launch_can_be_made_again(subject):
    spec = subject.spec()
    subject.ready(spec)
    subject.finish(lambda: subject.driver.remove(spec.uid))
    assert subject.ready(spec).launch == 1


def test_versions_only_grow_through_a_whole_life(subject):
    spec = subject.spec()
    versions = [subject.seen(spec.uid).version]
    versions.append(subject.ready(spec).version)
    versions.append(subject.stopped(spec.uid).version)
    subject.finish(lambda: subject.driver.remove(spec.uid))
    versions.append(subject.seen(spec.uid).version)
    versions.append(subject.ready(spec).version)
    assert versions == sorted(set(versions))


def test_list_owned_names_everything_once(subject):
    specs = [subject.spec() for _ in range(3)]
    for spec in specs:
        subject.ready(spec)
    subject.stopped(specs[0].uid)
    assert sorted(o.uid for o in subject.driver.list_owned()) == sorted(s.uid for s in specs)


def test_many_threads_make_one(subject):
    spec = subject.spec()
    errors = []

    def ensure() -> None:
        try:
            subject.driver.ensure(spec)
        except Exception as error:  # noqa: BLE001 - judged below
            errors.append(error)

    threads = [threading.Thread(target=ensure) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert subject.until(spec.uid, Seen.READY).launch == 1
    assert len(list(subject.driver.list_owned())) == 1


def test_probe_is_reachable_and_says_what_it_can(subject):
    health = subject.driver.probe()
    assert health.reachable
    assert health.cpu_milli >= 1000
    assert health.memory_mib > 0
    assert set(health.isolation) == set(ISOLATION)


# -- capabilities ----------------------------------------------------------------------------


def test_watch_begins_with_everything_and_goes_on_with_changes(subject):
    assert isinstance(subject.driver, SupportsWatch)
    old = subject.spec()
    subject.ready(old)
    over = threading.Event()
    # None: a long first list is on its way
    watch = (batch for batch in subject.driver.watch(stop=over.is_set) if batch is not None)
    assert [(o.uid, o.seen) for o in next(watch)] == [(old.uid, Seen.READY)]
    new = subject.spec()
    subject.driver.ensure(new)
    assert _follow(watch, new.uid, Seen.READY)
    subject.finish(lambda: subject.driver.remove(new.uid))
    assert _follow(watch, new.uid, Seen.MISSING)
    over.set()
    assert len(list(watch)) <= 1  # it ends; what was under way may still come, and come twice


def _follow(watch: Iterator[list[Observation]], uid: str, wanted: Seen) -> Observation:
    last = 0
    for batch in watch:
        for found in batch:
            if found.uid == uid:
                assert found.version > last
                last = found.version
                if found.seen == wanted:
                    return found
    raise AssertionError("the watch ended")


def test_volumes_are_idempotent_and_outlive_workloads(subject):
    driver = subject.driver
    assert isinstance(driver, SupportsVolumes)
    home = f"home-a{subject.salt}"
    assert driver.volume_usage(home) is None
    spec = subject.spec(mounts=(Mount(home, role="home"),))
    for _ in range(2):
        driver.ensure_volume(home, project=spec.project, owner=spec.owner)
    subject.ready(spec)
    subject.finish(lambda: driver.remove(spec.uid))
    used = driver.volume_usage(home)
    if subject.measures_volumes:
        assert used is not None
        assert used >= 0
    for _ in range(2):
        subject.finish(lambda: driver.remove_volume(home))
    assert driver.volume_usage(home) is None


def test_a_log_is_read_by_offset(subject):
    driver = subject.driver
    assert isinstance(driver, SupportsLogs)
    spec = subject.spec()
    subject.ready(spec)
    whole = wait_for(lambda: driver.read_log(spec.uid)[0])
    first, at = driver.read_log(spec.uid, offset=0, limit=4)
    rest, end = driver.read_log(spec.uid, offset=at)
    assert (len(first), first + rest) == (4, whole)
    assert driver.read_log(spec.uid, offset=end) == (b"", end)
    assert driver.read_log(spec.uid, offset=end + 1000)[0] == b""
    assert driver.read_log(str(uuid.uuid4()))[0] == b""


def test_of_a_launch_that_told_nothing_no_events_are_read(subject):
    driver = subject.driver
    assert isinstance(driver, SupportsEvents)
    spec = subject.spec()
    subject.ready(spec)
    assert driver.read_events(spec.uid, launch=spec.launch + 1).data == b""
    assert driver.read_events(str(uuid.uuid4()), launch=1).data == b""


def test_what_a_program_tells_is_read_on_and_once_more_after_its_end(subject):
    driver, said = subject.driver, [f'{{"step_count": {n}, "step_start_time": {n}}}' for n in "123"]
    script = f"""
        tell() {{ echo "a line of the log"; echo "$1" >> "$BERTH_EVENTS"; }}
        tell '{said[0]}'; sleep 3; tell '{said[1]}'; tell '{said[2]}'
    """
    spec = subject.group(script, replicas=1, code=0, tells=True)
    subject.tells(spec.uid, said)
    made(subject, spec)
    cursor, found = "", []

    def told(count: int) -> Callable[[], bool]:
        def look() -> bool:
            nonlocal cursor
            part = driver.read_events(spec.uid, launch=1, cursor=cursor)
            found.extend(line.decode() for line in part.data.splitlines() if line[:1] == b"{")
            cursor = part.cursor
            return len(found) >= count and not part.more

        return look

    wait_for(told(1), seconds=subject.timeout_s)
    subject.until(spec.uid, Seen.EXITED)
    wait_for(told(3), seconds=subject.timeout_s)
    assert found == said
    assert driver.read_events(spec.uid, launch=1, cursor=cursor).data == b""
    after = subject.group("true", replicas=1, code=0, tells=True, uid=spec.uid, launch=2)
    subject.finish(lambda: subject.driver.ensure(after))
    subject.until(spec.uid, Seen.EXITED)
    whole = driver.read_events(spec.uid, launch=1).data  # also of the launch before
    assert [line.decode() for line in whole.splitlines() if line[:1] == b"{"] == said


def test_usage_of_what_runs_is_known_and_of_the_rest_absent(subject):
    driver = subject.driver
    assert isinstance(driver, SupportsMetrics)
    spec, ended = subject.spec(), subject.spec()
    subject.ready(spec)
    subject.ready(ended)
    subject.stopped(ended.uid)
    if not subject.has_metrics:
        pytest.skip("the cluster measures nothing")
    asked = [spec.uid, ended.uid, str(uuid.uuid4())]
    used = wait_for(lambda: driver.usage(asked), seconds=subject.timeout_s)
    assert list(used) == [spec.uid]
    assert used[spec.uid]["memory_mib"] > 0
    assert set(used[spec.uid]) <= {"cpu_milli", "memory_mib", "rx_bytes", "tx_bytes"}


# -- data ------------------------------------------------------------------------------------


def made(subject: Subject, spec: WorkloadSpec) -> None:
    subject.finish(lambda: subject.driver.ensure(spec))


@pytest.mark.parametrize("code", [0, 3])
def test_what_runs_to_its_end_says_how_it_ended(subject, code):
    spec = subject.once(code)
    made(subject, spec)
    found = subject.until(spec.uid, Seen.EXITED)
    assert (found.exit_code, found.launch, found.address) == (code, 1, "")
    subject.finish(lambda: subject.driver.stop(spec.uid, grace_s=2))
    subject.driver.ensure(spec)  # an end is an end
    again = subject.seen(spec.uid)
    assert (again.seen, again.exit_code) == (Seen.EXITED, code)
    after = subject.once(4, uid=spec.uid, launch=2)
    made(subject, after)
    ended = subject.until(spec.uid, Seen.EXITED)
    assert (ended.launch, ended.exit_code) == (2, 4)
    assert [o.uid for o in subject.driver.list_owned()] == [spec.uid]
    subject.finish(lambda: subject.driver.remove(spec.uid))
    assert subject.seen(spec.uid).seen == Seen.MISSING


def test_secret_files_are_made_when_something_starts_and_only_then(subject):
    asked = []
    spec = subject.spec(secret_files=lambda: asked.append(1) or {"plan.json": "{}"})
    before = subject.ready(spec)
    for _ in range(2):
        subject.driver.ensure(spec)
    assert asked == [1]
    assert isinstance(subject.driver, SupportsSecretRefresh)
    subject.driver.refresh_secrets(spec)
    subject.driver.refresh_secrets(subject.spec(secret_files=lambda: {"a": "b"}))  # not there
    assert subject.seen(spec.uid).started_at == before.started_at


def test_files_that_hold_the_path_of_their_folder_start_and_are_written_again(subject):
    files = {"placed": "{secrets} {memory}", "kept": "{secrets}"}
    spec = subject.spec(secret_files=lambda: files, placed_files=("placed", "not-there"))
    before = subject.ready(spec)
    subject.driver.refresh_secrets(spec)
    assert subject.seen(spec.uid).started_at == before.started_at


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", "a b"])
def test_c8_names_of_secret_files_are_plain(subject, name):
    with pytest.raises(InvalidSpec, match="secret file"):
        subject.driver.ensure(subject.spec(secret_files=lambda: {name: "x"}))


@pytest.mark.parametrize("names", [("../x",), ("a/b",), ("",), ("..",), ("one", "one")])
def test_c8_names_of_volumes_are_plain_and_different(subject, names):
    mounts = tuple(Mount(f"c8-{n}{subject.salt}", name=name) for n, name in enumerate(names))
    spec = subject.spec(mounts=mounts)
    with pytest.raises(InvalidSpec):
        subject.finish(lambda: subject.driver.ensure(spec))
    assert subject.seen(spec.uid).seen == Seen.MISSING


def test_members_share_a_volume(subject):
    volume, project = f"shared{subject.salt}", str(uuid.uuid4())
    mounts = (Mount(volume, name="data"),)
    specs = [subject.spec(project=project, mounts=mounts) for _ in range(2)]
    assert specs[0].owner != specs[1].owner
    for _ in range(2):
        subject.finish(lambda: subject.driver.ensure_volume(volume, project=project, owner=""))
    for spec in specs:
        subject.ready(spec)
    for spec in specs:
        subject.finish(lambda uid=spec.uid: subject.driver.remove(uid))
    subject.finish(lambda: subject.driver.remove_volume(volume))


def test_snapshots_are_made_once_put_back_and_removed(subject):
    driver, volume = subject.driver, f"snap{subject.salt}"
    assert isinstance(driver, SupportsSnapshots)
    if not driver.can_snapshot(FOLDER):
        pytest.skip("what volumes lie on here has no snapshots")
    subject.finish(lambda: driver.ensure_volume(volume, project="p", owner=""))
    of = {"volume_uid": volume, "backing": FOLDER}
    sizes = []
    for _ in range(2):
        subject.finish(lambda: sizes.append(driver.ensure_snapshot("s1", **of)))
    assert sizes[0] == sizes[1] >= 0
    for _ in range(2):
        subject.finish(lambda: driver.restore_snapshot("s1", **of))
    for _ in range(2):
        subject.finish(lambda: driver.remove_snapshot("s1", **of))
    with pytest.raises(InvalidSpec):
        subject.finish(lambda: driver.restore_snapshot("s1", **of))
    subject.finish(lambda: driver.remove_volume(volume))


def test_a_shared_volume_can_go_to_another_project(subject):
    driver, volume = subject.driver, f"move{subject.salt}"
    assert isinstance(driver, SupportsMoves)
    assert driver.can_move(FOLDER)
    subject.finish(lambda: driver.ensure_volume(volume, project="p", owner=""))
    for _ in range(2):
        subject.finish(lambda: driver.move_volume(volume, project="q", owner="", backing=FOLDER))
    subject.finish(lambda: driver.remove_volume(volume))


# -- values of searches ------------------------------------------------------------------------


def an_experiment(subject, trials: int) -> ExperimentSpec:
    driver = subject.driver
    if not isinstance(driver, SupportsExperiments):
        pytest.skip("chooses no values")
    if isinstance(driver, KubernetesDriver) and KATIB not in (driver.probe().operators or ()):
        lacking("Katib (python -m devcluster katib)", is_built=katib.has())
    bounds = {"min": "0", "max": "1"}
    return ExperimentSpec(
        uid=str(uuid.uuid4()),
        name="of the contract",
        generation=0,
        metric="score",
        maximizes=True,
        algorithm="random",
        settings={},
        space=[{"name": "x", "parameterType": "double", "feasibleSpace": bounds}],
        trials_max=trials,
        parallel=1,
    )


def test_however_a_trial_ended_the_next_values_come_and_all_of_them_count(subject):
    ends = [TrialEnd("EarlyStopped", curve=[0.1, 0.2]), TrialEnd("Failed"), TrialEnd("Succeeded")]
    spec, driver = an_experiment(subject, len(ends)), subject.driver
    if isinstance(driver, FakeDriver):
        driver.propose(*({"x": f"0.{n}"} for n in range(1, 5)))
    done: list[str] = []

    def proposed() -> list[Proposal]:
        found = driver.ensure_experiment(spec)
        assert {one.name for one in found if one.told} == set(done)
        return [one for one in found if not one.told]

    for end in ends:
        (one,) = wait_for(proposed, every=0.5, seconds=subject.timeout_s)
        assert 0 <= float(one.values["x"]) <= 1
        for _ in range(2):
            subject.finish(partial(driver.tell_trial, spec, one.name, end))
        done.append(one.name)
    assert proposed() == []
    subject.finish(lambda: driver.remove_experiment(spec.uid))


def test_an_experiment_is_listed_until_it_is_removed_and_removed_again(subject):
    spec, driver = an_experiment(subject, 1), subject.driver
    again = replace(spec, generation=1)  # its next begin: both stand for one search
    for one in (spec, again, spec):
        driver.ensure_experiment(one)
    seen = [found for found in driver.list_experiments() if found.uid == spec.uid]
    assert [found.kind for found in seen] == [EXPERIMENT]
    for _ in range(2):
        subject.finish(lambda: driver.remove_experiment(spec.uid))
    assert spec.uid not in {found.uid for found in driver.list_experiments()}


# -- attempts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "retry", "code"),
    [
        pytest.param(1, RetryPolicy(), 1, id="nobody asked for another attempt"),
        pytest.param(3, RetryPolicy(2, backoff_s=0.1, on=(3,)), 0, id="this code was asked for"),
        pytest.param(4, RetryPolicy(2, backoff_s=0.1, on=(3,)), 4, id="another one was"),
        pytest.param(4, RetryPolicy(2, backoff_s=0.1, never=(4,)), 4, id="this one never"),
    ],
)
def test_an_exit_code_is_the_programs_own(subject, first, retry, code):
    spec = subject.twice(first, 0, retry)
    made(subject, spec)
    found = subject.until(spec.uid, Seen.EXITED)
    assert (found.exit_code, found.launch) == (code, 1)


# -- groups ------------------------------------------------------------------------------------

SAYS = 'echo "rank=$RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT"; echo "hosts=$BERTH_HOSTS"; '
FAILS = 'if [ "$BERTH_REPLICA" = 1 ]; then sleep 1; exit 3; fi; sleep 600'


def test_a_group_is_ready_when_all_are_and_each_has_its_log(subject):
    spec = subject.group("sleep 600", replicas=2)
    made(subject, spec)
    found = subject.until(spec.uid, Seen.READY)
    assert [(r.index, r.role, r.seen) for r in found.replicas] == [
        (0, "worker", Seen.READY),
        (1, "worker", Seen.READY),
    ]
    assert all(r.node and r.exit_code is None for r in found.replicas)
    meeting = set()
    for number in range(2):

        def said(number: int = number) -> str:
            return subject.driver.read_log(spec.uid, replica=number)[0].decode()

        line = wait_for(
            lambda: next((x for x in said().splitlines() if x.startswith("rank=")), ""),
            seconds=subject.timeout_s,
        )
        who, _, where = line.partition(" at ")
        assert who == f"rank={number} of 2"
        meeting.add(where)
    assert len(meeting) == 1
    assert subject.driver.read_log(spec.uid, replica=2)[0] == b""
    assert [o.uid for o in subject.driver.list_owned()] == [spec.uid]
    subject.stopped(spec.uid)
    subject.finish(lambda: subject.driver.remove(spec.uid))
    assert subject.seen(spec.uid).seen == Seen.MISSING
    assert list(subject.driver.list_owned()) == []


def test_one_of_a_group_that_fails_ends_the_others(subject):
    spec = subject.group(FAILS, replicas=3, code=3, failing=1)
    made(subject, spec)
    found = subject.until(spec.uid, Seen.EXITED)
    assert (found.exit_code, found.replicas[1].exit_code) == (3, 3)
    subject.finish(lambda: subject.driver.stop(spec.uid, grace_s=2))
    found = subject.seen(spec.uid)
    assert (found.seen, found.exit_code, found.launch) == (Seen.EXITED, 3, 1)
    assert [r.seen for r in found.replicas] == [Seen.EXITED] * 3
    subject.driver.ensure(spec)  # an end is an end
    assert subject.seen(spec.uid).seen == Seen.EXITED


def test_a_group_ends_well_when_all_do_and_the_next_launch_may_be_smaller(subject):
    spec = subject.group("exit 0", replicas=3, code=0)
    made(subject, spec)
    found = subject.until(spec.uid, Seen.EXITED)
    assert (found.exit_code, [r.exit_code for r in found.replicas]) == (0, [0, 0, 0])
    subject.finish(lambda: subject.driver.stop(spec.uid, grace_s=2))
    again = subject.group("exit 0", replicas=1, code=0, uid=spec.uid, launch=2)
    made(subject, again)

    def is_over() -> Observation | None:
        now = subject.seen(spec.uid)
        return now if (now.launch, now.seen) == (2, Seen.EXITED) else None

    ended = wait_for(is_over, seconds=subject.timeout_s)
    assert (ended.exit_code, len(ended.replicas)) == (0, 1)


def test_only_what_runs_to_its_end_has_replicas(subject):
    spec = subject.spec(groups=(PodGroup(replicas=2),))
    with pytest.raises(InvalidSpec):
        subject.finish(lambda: subject.driver.ensure(spec))
    assert subject.seen(spec.uid).seen == Seen.MISSING


# -- what serves -------------------------------------------------------------------------------


def addresses(found: Observation) -> set[str]:
    return {one.address for one in found.replicas if one.address}


def test_what_serves_has_as_many_replicas_as_are_wanted_each_at_its_address(subject):
    assert isinstance(subject.driver, SupportsServing)
    spec = subject.serving(1)
    first = subject.ready(spec)
    assert [(r.index, r.seen, r.address) for r in first.replicas] == [
        (0, Seen.READY, first.address)
    ]
    two = subject.scaled(spec, 2)
    assert len(addresses(two)) == 2
    assert first.address in addresses(two)  # it goes on
    assert (two.seen, two.launch, two.address in addresses(two)) == (Seen.READY, 1, True)
    one = subject.scaled(spec, 1)
    assert len(addresses(one)) == 1
    assert one.version > two.version > first.version
    assert [o.uid for o in subject.driver.list_owned()] == [spec.uid]
    subject.finish(lambda: subject.driver.remove(spec.uid))
    assert subject.seen(spec.uid).seen == Seen.MISSING
    assert list(subject.driver.list_owned()) == []


def test_what_serves_sleeps_wakes_and_stays_stopped(subject):
    spec = subject.serving(2)
    subject.ready(spec)
    asleep = subject.scaled(spec, 0)
    assert (asleep.seen, asleep.address, asleep.replicas) == (Seen.READY, "", ())
    subject.driver.ensure(spec)  # this launch is there: it sleeps on
    assert subject.seen(spec.uid).replicas == ()
    awake = subject.scaled(spec, 1)
    assert (awake.seen, awake.launch, len(addresses(awake))) == (Seen.READY, 1, 1)
    ended = subject.stopped(spec.uid)
    assert (ended.launch, ended.address, addresses(ended)) == (1, "", set())
    subject.driver.scale(replace(spec, serve=Serve(3)))
    assert subject.seen(spec.uid).seen == Seen.EXITED
    subject.finish(lambda: subject.driver.ensure(replace(spec, launch=2)))
    again = subject.scaled(replace(spec, launch=2), 2)
    assert (again.seen, again.launch) == (Seen.READY, 2)


def test_what_sleeps_is_stopped_and_of_what_is_not_there_no_replica_is_made(subject):
    spec = subject.serving(1)
    subject.driver.scale(spec)
    assert subject.seen(spec.uid).seen == Seen.MISSING
    subject.ready(spec)
    subject.scaled(spec, 0)
    assert subject.stopped(spec.uid).launch == 1
    subject.driver.scale(replace(spec, launch=2))
    assert subject.seen(spec.uid).seen == Seen.EXITED


def test_what_serves_begins_with_a_replica(subject):
    spec = subject.serving(0)
    with pytest.raises(InvalidSpec):
        subject.driver.ensure(spec)
    assert subject.seen(spec.uid).seen == Seen.MISSING
