"""Started as root, owners are closed to each other; limits hold; GPUs are only what was given."""

import subprocess
import sys
from pathlib import Path

import pytest

from runtime.drivers.local import environ, isolation
from runtime.protocol import ISOLATION, Device, DriverError, NotYet, Seen
from runtime.spec import Resources
from runtime.use_sources import DeviceUse, Holder
from tests.drivers.local.harness import PYTHON, processes_of, wait_for

real = pytest.mark.real
root = [pytest.mark.real, pytest.mark.root]


def run(supervisor, script, **options):
    """Return what a shell script printed in a workload."""
    spec = supervisor.shell(script, **options)
    supervisor.ended(spec)
    return supervisor.log(spec)


class TestOwners:
    pytestmark = root

    def test_each_owner_in_each_project_is_a_user_of_its_own(self, rooted):
        alice = run(rooted, "id -u; id -G")
        again = run(rooted, "id -u; id -G")
        bob = run(rooted, "id -u; id -G", owner="bob")
        other = run(rooted, "id -u; id -G", project="another" + rooted.project)
        assert alice == again
        assert len({alice, bob, other}) == 3
        assert "0" not in alice.split()

    def test_a_number_is_never_given_twice(self, rooted):
        first = run(rooted, "id -u")
        subprocess.run(["userdel", run(rooted, "id -un").strip()], check=True)
        second = run(rooted, "id -u", owner="bob")
        assert int(second) > int(first)
        assert run(rooted, "id -u") == first

    def test_a_number_that_somebody_else_took_meanwhile_is_not_shared(self, rooted, monkeypatch):
        """Two supervisors of one machine reach for the same number."""
        import asyncio

        from runtime.drivers.local import users

        folder = rooted.folder / "other"
        folder.mkdir()
        run(rooted, "true")
        taken = int(run(rooted, "id -u"))
        other = users.Users(folder)
        numbers = iter([taken, taken + 5000])
        monkeypatch.setattr(users.Users, "_next", lambda self: next(numbers))
        found = asyncio.run(other.get("another-project", "somebody"))
        subprocess.run(["userdel", found.name], check=True)
        assert found.uid == taken + 5000

    def test_a_home_is_closed_to_another_owner(self, rooted):
        alice = rooted.shell("echo secret > $HOME/file; sleep 60")
        rooted.ready(alice)
        wait_for((rooted.home(alice) / "file").exists)
        said = run(rooted, f"cat {rooted.home(alice)}/file; ls {rooted.volumes}", owner="bob")
        assert "secret" not in said
        assert said.count("Permission denied") + said.count("No such file") == 2
        assert rooted.home(alice).stat().st_mode & 0o777 == 0o700  # also for who sees it

    def test_another_owners_processes_are_not_seen(self, rooted):
        alice = rooted.shell("exec sleep 61234", env={"CANARY": "alice-env"})
        pid = rooted.ready(alice).detail["pid"]
        wait_for(lambda: b"61234" in Path(f"/proc/{pid}/cmdline").read_bytes())
        said = run(
            rooted, f"cat /proc/{pid}/cmdline; ls /proc | grep -c '^1$'; ps aux", owner="bob"
        )
        assert "61234" not in said
        assert "No such file" in said
        mine = run(rooted, f"tr '\\0' ' ' < /proc/{pid}/cmdline")
        assert "61234" in mine

    def test_the_folder_tmp_is_private_and_fresh(self, rooted):
        alice = rooted.shell("echo hi > /tmp/left; echo hi > /var/tmp/left2; sleep 60")
        rooted.ready(alice)
        assert "left" not in run(rooted, "ls /tmp /var/tmp", owner="bob")
        assert "left" not in run(rooted, "ls /tmp")
        assert not Path("/tmp/left").exists()

    def test_shared_memory_is_private_bounded_and_gone_at_the_end(self, rooted):
        alice = rooted.shell(
            "head -c 4M /dev/zero > /dev/shm/left; ipcmk -M 4096 > $HOME/made; sleep 60"
        )
        rooted.ready(alice)
        wait_for((rooted.home(alice) / "made").exists)
        look = "ls -A /dev/shm; ipcs -m | grep -c ^0x"
        assert "left" not in run(rooted, look, owner="bob")
        assert run(rooted, look).splitlines()[-1] == "0"  # another one of hers
        assert not Path("/dev/shm/left").exists()
        segments = subprocess.run(["ipcs", "-m"], check=True, capture_output=True, text=True).stdout
        assert " 4096 " not in segments
        size = Resources(cpu_milli=1000, memory_mib=64)
        said = run(rooted, "df -m --output=size /dev/shm | tail -1", resources=size)
        assert said.split() == ["64"]

    def test_no_privilege_can_be_gained(self, rooted):
        said = run(rooted, "grep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status; umask")
        assert "NoNewPrivs:\t1" in said
        assert "CapEff:\t0000000000000000" in said
        assert "0077" in said

    def test_the_state_and_the_socket_are_closed(self, rooted):
        spec = rooted.shell("sleep 60")
        rooted.ready(spec)
        connect = f"import socket; socket.socket(1).connect('{rooted.socket}')"
        said = run(
            rooted,
            f'ls {rooted.state}/records; ls {rooted.state}/spaces/{spec.uid}/runtime; {PYTHON} -c "{connect}"',
            owner="bob",
        )
        assert said.count("cannot open directory") == 2
        assert "PermissionError" in said

    def test_a_home_of_somebody_else_is_refused(self, rooted):
        alice = rooted.shell("true")
        rooted.ended(alice)
        with pytest.raises(DriverError, match="another user"):
            rooted.driver.ensure(rooted.shell("true", owner="bob", mounts=alice.mounts))

    def test_a_link_in_a_users_folder_leads_root_nowhere(self, rooted):
        """The user replaces parts of his environment by links to a file of root's."""
        target = rooted.folder / "precious"
        target.write_text("precious")
        environment(rooted)
        spec = rooted.shell(
            f"cd $VIRTUAL_ENV && ln -sf {target} pyvenv.cfg && ln -sf {target} bin/pip && ln -sf {target} pyvenv.cfg.berth",
            environment="base",
        )
        rooted.ended(spec)
        again = rooted.shell(
            "cat $VIRTUAL_ENV/pyvenv.cfg",
            environment="base",
            uid=spec.uid,
            launch=2,
            mounts=spec.mounts,
        )
        rooted.ended(again)
        assert target.read_text() == "precious"
        assert "home = " in rooted.log(again)

    def test_what_is_enforced_is_told(self, rooted):
        told = rooted.driver.probe().isolation
        assert told["users"] is True
        assert set(told) == set(ISOLATION)

    def test_a_closed_folder_is_named_before_anybody_tries(self, rooted):
        rooted.folder.chmod(0o700)
        assert str(rooted.folder) in rooted.driver.probe().message
        with pytest.raises(DriverError, match="can't pass through"):
            rooted.driver.ensure(rooted.shell("true"))
        rooted.folder.chmod(0o711)


def environment(supervisor):
    folder = supervisor.environments / "base" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(PYTHON)
    for path in (folder.parent, folder):
        path.chmod(0o755)


@real
def test_started_by_an_ordinary_user_it_says_that_users_are_one_circle(ordinary):
    told = ordinary.driver.probe().isolation
    assert told["users"] is told["proc"] is told["tmp"] is told["gpu"] is False


class TestLimits:
    pytestmark = root

    def need(self, rooted, name):
        if not rooted.driver.probe().isolation[name]:
            pytest.skip(f"this machine does not enforce {name}")

    def test_too_much_memory_ends_with_that_reason(self, rooted):
        self.need(rooted, "memory")
        spec = rooted.spec(
            (PYTHON, "-c", "x = bytearray(300 * 1024 * 1024); print(len(x))"),
            resources=Resources(cpu_milli=1000, memory_mib=64, pids=50),
        )
        found = rooted.ended(spec)
        assert found.reason == "oom"
        assert "memory" in found.message

    def test_c11_a_fork_bomb_hurts_only_itself(self, rooted):
        self.need(rooted, "pids")
        spec = rooted.shell(
            "for i in $(seq 100); do sleep 60 & done; echo made; wait",
            resources=Resources(cpu_milli=1000, memory_mib=256, pids=20),
        )
        rooted.driver.ensure(spec)
        wait_for(lambda: "fork" in rooted.log(spec).lower())
        assert len(processes_of(spec.uid)) <= 20
        assert rooted.ready(rooted.shell("sleep 60"))
        rooted.remove(spec.uid)
        assert processes_of(spec.uid) == set()

    def test_processor_time_is_limited_and_measured(self, rooted):
        self.need(rooted, "cpu")
        spec = rooted.shell(
            "while :; do :; done", resources=Resources(cpu_milli=200, memory_mib=64, pids=5)
        )
        rooted.ready(spec)
        rooted.driver.usage([spec.uid])
        import time

        def over_a_second():
            time.sleep(1.0)
            used = rooted.driver.usage([spec.uid])[spec.uid]
            assert used["memory_mib"] >= 0
            return used["cpu_milli"]

        # A busy machine may give it less than it is allowed, or read the clock late: then again.
        wait_for(lambda: 50 <= over_a_second() <= 300)


@real
def test_usage_is_measured_without_control_groups_too(ordinary):
    spec = ordinary.server()
    ordinary.ready(spec)
    used = ordinary.driver.usage([spec.uid, "unknown-uid"])
    assert used[spec.uid]["memory_mib"] > 3
    assert "cpu_milli" in used[spec.uid]
    assert "unknown-uid" not in used


def test_groups_of_version_two_are_filled_as_the_kernel_wants_them(tmp_path):
    """This machine has one version; the other is checked on its files."""
    groups = isolation.Groups(v2=tmp_path, v2_controllers=frozenset(["memory", "cpu", "pids"]))
    folder = tmp_path / "u"
    assert groups.create("u", cpu_milli=1500, memory_mib=2, pids=7) == [str(folder)]
    assert (folder / "memory.max").read_text() == str(2 * 1024 * 1024)
    assert (folder / "cpu.max").read_text() == "150000 100000"
    assert (folder / "pids.max").read_text() == "7"
    (folder / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    (folder / "memory.current").write_text("5000\n")
    (folder / "memory.stat").write_text("anon 1\ninactive_file 1000\n")
    (folder / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    assert groups.oom_kills("u") == 1
    assert groups.memory_bytes("u") == 4000
    assert groups.cpu_seconds("u") == 2.5


class TestGpus:
    @real
    def test_c4_nobody_can_name_gpus_that_were_not_given(self, supervisor):
        hostile = {
            "CUDA_VISIBLE_DEVICES": "all",
            "NVIDIA_VISIBLE_DEVICES": "all",
            "NVIDIA_DRIVER_CAPABILITIES": "all",
            "LD_PRELOAD": "/tmp/evil.so",
            "LD_AUDIT": "/tmp/evil.so",
            "BASH_ENV": "/tmp/evil.sh",
            "PATH": "/tmp",
            "HOME": "/root",
            "GOOD": "yes",
        }
        spec = supervisor.shell("env", env=hostile)
        found = supervisor.ended(spec)
        said = dict(line.split("=", 1) for line in supervisor.log(spec).splitlines() if "=" in line)
        assert said["CUDA_VISIBLE_DEVICES"] == ""
        assert said["NVIDIA_VISIBLE_DEVICES"] == "void"
        assert said["GOOD"] == "yes"
        assert said["HOME"] == str(supervisor.home(spec))
        assert not {"LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "NVIDIA_DRIVER_CAPABILITIES"} & set(said)
        assert found.detail["ignored_env"] == sorted(set(hostile) - {"GOOD"})

    @real
    def test_exactly_the_given_gpus_are_visible(self, ordinary):
        spec = ordinary.shell(
            "echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES", devices=("GPU-a", "GPU-b")
        )
        ordinary.ended(spec)
        assert ordinary.log(spec) == "GPU-a,GPU-b GPU-a,GPU-b\n"

    def test_minor_numbers_come_from_the_driver(self, tmp_path):
        for minor, uuid in ((0, "GPU-a"), (3, "GPU-b")):
            folder = tmp_path / f"0000:0{minor}"
            folder.mkdir()
            (folder / "information").write_text(
                f"Model: \t NVIDIA H100\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
            )
        assert isolation.nvidia_minors(tmp_path) == {"GPU-a": 0, "GPU-b": 3}

    def test_devices_are_closed_but_for_the_given(self, tmp_path, monkeypatch):
        monkeypatch.setattr(isolation, "nvidia_majors", lambda: {"nvidia": 195, "nvidia-uvm": 511})
        (tmp_path / "u").mkdir()
        writes = []
        monkeypatch.setattr(isolation, "_put", lambda path, text: writes.append((path.name, text)))
        isolation.Groups(v1={"devices": tmp_path}).restrict_gpus("u", [3])
        assert writes == [
            ("devices.deny", "c 195:* rwm"),
            ("devices.deny", "c 511:* rwm"),
            ("devices.allow", "c 195:3 rw"),
            ("devices.allow", "c 195:255 rw"),
            ("devices.allow", "c 511:* rw"),
        ]

    def test_simulated_gpus_do_what_such_work_would_and_always_the_same(self):
        from runtime.drivers.local.gpus import SimulatedGpus, played

        (device,) = SimulatedGpus("1xH100-80").devices()
        free = played(device, None)
        assert (free.utilisation, free.memory_used_mib) == (0, 0)
        hour = range(0, 3600, 10)

        def use(uid, kind):
            holder = Holder(uid, ("", ""), "", 1, (device.uuid,), kind)
            rates = [played(device, holder, at).utilisation for at in hour]
            assert rates == [played(device, holder, at).utilisation for at in hour]
            assert all(0 <= rate <= 100 for rate in rates)
            return sum(rates) / len(rates)

        assert use("a", "job") > 85
        means = [use(str(n), "workspace") for n in range(30)]
        assert min(means) == 0, "some hold and do nothing"
        assert any(20 < mean < 40 for mean in means), "others work in bursts"

    def test_simulated_gpus_are_what_the_setting_says_and_do_nothing(self):
        from runtime.drivers.local.gpus import NvmlSource, SimulatedGpus, gpu_source

        found = SimulatedGpus("2xH100-80, 1xA100-40").devices()
        assert [d.memory_mib for d in found] == [81920, 81920, 40960]
        assert found[2].name == "NVIDIA A100"
        assert len({d.uuid for d in found}) == 3
        assert all(d.simulated and d.utilisation is None for d in found)
        assert isinstance(gpu_source(""), NvmlSource)
        assert gpu_source("2xH100-80, 1xA100-40").devices() == found
        with pytest.raises(ValueError, match="2xH100-80"):
            SimulatedGpus("many")

    def test_no_gpu_is_a_normal_machine(self):
        from runtime.drivers.local.gpus import NvmlSource

        assert isinstance(NvmlSource().devices(), tuple)

    def test_every_gpu_is_read_from_the_portals_side_with_who_holds_it(self, ordinary):
        from runtime.drivers.local.driver import LocalDriver

        class Two:
            def devices(self):
                return (
                    Device("GPU-a", 0, "H100", 100, memory_used_mib=30, utilisation=40),
                    Device("GPU-b", 1, "H100", 100, memory_used_mib=10, utilisation=20),
                )

        driver = LocalDriver(ordinary.socket, gpus=Two())
        holder = Holder("u1", ("", ""), "", 1, ("GPU-b",))
        assert driver.device_use([holder], []) == [
            DeviceUse("GPU-a", "", 40, 30),
            DeviceUse("GPU-b", "u1", 20, 10),
        ]


@pytest.mark.parametrize("name", ["LD_PRELOAD", "NVIDIA_X", "PYTHONHOME", "", "A=B", "HOME"])
def test_dangerous_names_are_refused(name):
    assert environ.is_refused(name)


def test_an_address_with_a_password_is_not_passed_on():
    machine = {"PIP_INDEX_URL": "https://user:pw@host/simple", "TZ": "UTC", "SECRET": "x"}
    assert environ.passed_on(machine) == {"TZ": "UTC"}


def test_the_supervisor_knows_no_django():
    code = (
        "import sys; import runtime.drivers.local.supervisor\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in ('django', 'ssl', 'httpx') and sys.modules[m]]\n"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@real
def test_volumes_are_made_measured_and_removed(supervisor):
    driver = supervisor.driver
    assert driver.volume_usage("vol-1") is None
    for _ in range(2):
        driver.ensure_volume("vol-1", project=supervisor.project, owner="alice")
    assert (supervisor.volumes / "vol-1").stat().st_mode & 0o777 == 0o700
    spec = supervisor.shell(
        "head -c 1000000 /dev/zero > $HOME/big; sleep 60", mounts=(mount("vol-1"),)
    )
    supervisor.ready(spec)
    wait_for(lambda: (driver.volume_usage("vol-1") or 0) >= 1_000_000)
    with pytest.raises(NotYet):
        driver.remove_volume("vol-1")
    supervisor.remove(spec.uid)
    for _ in range(2):
        driver.remove_volume("vol-1")
    assert not (supervisor.volumes / "vol-1").exists()
    assert supervisor.seen(spec.uid).seen == Seen.MISSING


def mount(uid):
    from runtime.spec import Mount

    return Mount(uid, role="home")


def test_the_settings_say_where_the_supervisor_is(settings, tmp_path):
    from runtime.drivers.local.driver import LocalDriver
    from runtime.protocol import Unreachable

    settings.BERTH_SUPERVISOR_SOCKET = tmp_path / "none.sock"
    settings.BERTH_SIMULATED_GPUS = "2xH100-80"
    driver = LocalDriver()
    assert len(driver._gpus.devices()) == 2
    with pytest.raises(Unreachable) as caught:
        driver.probe()
    assert caught.value.reason == "unreachable"


@real
def test_a_workload_inherits_nothing_but_its_three_descriptors(supervisor):
    said = run(supervisor, "ls -l /proc/$$/fd; readlink /proc/$$/fd/0")
    numbers = {line.split()[8] for line in said.splitlines() if " -> " in line}
    assert numbers <= {"0", "1", "2", "10"}  # 10 is the shell's own
    assert said.rstrip().endswith("/dev/null")
