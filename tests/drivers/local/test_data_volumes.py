"""Volumes of data in a workload: by name, read-only where asked, shared among members only."""

import os
import subprocess
from pathlib import Path

import pytest

from runtime.drivers.local import users
from runtime.protocol import DriverError, InvalidSpec, Seen
from runtime.spec import Mount
from tests.drivers.local.harness import wait_for

real = pytest.mark.real
root = [pytest.mark.real, pytest.mark.root]


def data(uid, name="data", **options):
    return Mount(uid, role="data", name=name, **options)


def home(uid):
    return Mount(uid, role="home")


def run(supervisor, script, *mounts, **options):
    spec = supervisor.shell(script, mounts=mounts, **options)
    supervisor.ended(spec)
    return supervisor.log(spec)


@real
class TestByName:
    def test_each_is_seen_by_its_name(self, supervisor):
        said = run(
            supervisor,
            "cd $BERTH_VOLUMES && ls && echo hi > raw/a && cat ~/volumes/raw/a && ls -A work",
            home("h1"),
            data("v1", "raw"),
            data("v2", "work"),
        )
        assert said == "raw\nwork\nhi\n"
        assert (supervisor.volumes / "v1/a").read_text() == "hi\n"

    def test_the_next_launch_sees_what_it_is_given_and_no_more(self, supervisor):
        first = supervisor.shell("true", mounts=(home("h1"), data("v1", "raw")))
        supervisor.ended(first)
        options = {"uid": first.uid, "launch": 2}
        said = run(supervisor, "ls ~/volumes/", home("h1"), data("v2", "work"), **options)
        assert said == "work\n"
        assert (supervisor.volumes / "v1").is_dir()

    def test_without_volumes_the_folder_is_empty_and_the_home_has_no_link(self, supervisor):
        said = run(supervisor, "echo .; ls -A $BERTH_VOLUMES ~/volumes", home("h1"))
        assert "No such file" in said
        assert said.startswith(".\n")
        assert len(said.splitlines()) == 3

    def test_what_a_user_keeps_under_that_name_stays(self, supervisor):
        run(supervisor, "mkdir ~/volumes && echo mine > ~/volumes/file", home("h1"))
        said = run(supervisor, "cat ~/volumes/file; ls $BERTH_VOLUMES", home("h1"), data("v1"))
        assert said == "mine\ndata\n"

    def test_nobody_sets_the_name_of_the_folder(self, supervisor):
        said = run(supervisor, "echo $BERTH_VOLUMES", env={"BERTH_VOLUMES": "/etc"})
        assert said.strip().startswith(str(supervisor.state))

    @pytest.mark.parametrize(
        "mounts",
        [
            (data("v1", "../up"),),
            (data("v1", "a/b"),),
            (data("v1", ""),),
            (data("../v1"),),
            (data("v1"), data("v2")),
            (home("h1"), home("h2")),
            (Mount("h1", role="home", read_only=True),),
            (Mount("v1", role="cache", name="x"),),
            (data("v1", owner="bob"),),
        ],
    )
    def test_c8_what_is_no_plain_mount_is_refused(self, ordinary, mounts):
        with pytest.raises(InvalidSpec):
            ordinary.driver.ensure(ordinary.shell("true", mounts=mounts))
        assert [p.name for p in ordinary.volumes.iterdir()] == [".snapshots"]


class TestReadOnly:
    pytestmark = root

    @pytest.fixture(autouse=True)
    def _enforced(self, rooted):
        if not rooted.driver.probe().isolation["read_only_volumes"]:
            pytest.skip("this machine lets nothing be mounted")

    def test_c8_it_can_not_be_written_by_any_way(self, rooted):
        run(rooted, "echo kept > ~/volumes/data/file", home("h1"), data("v1"))
        behind = f"{rooted.volumes}/v1"
        said = run(
            rooted,
            f"cd $BERTH_VOLUMES/data; cat file; echo x > file; rm -f file; mkdir d; touch file;"
            f" ls {behind}; echo x > {behind}/file; mount -o remount,rw . ;"
            f" ln ~/volumes/data/file ~/hard; umount ~/volumes/data; umount {rooted.volumes}",
            home("h1"),
            data("v1", read_only=True),
        )
        assert "kept" in said
        assert said.count("Read-only file system") == 4
        assert f"cannot access '{behind}'" in said
        assert (rooted.volumes / "v1/file").read_text() == "kept\n"
        assert sorted(p.name for p in (rooted.volumes / "v1").iterdir()) == ["file"]

    def test_c8_nor_through_another_process_of_the_same_person(self, rooted):
        """Whoever sees it read-only has its group, and the same user's /proc/<pid>/root."""
        run(rooted, "echo kept > $BERTH_VOLUMES/data/file", data("v1"), owner="alice")
        other = rooted.shell("echo $$ > ~/pid; sleep 60", mounts=(home("h1"),))
        rooted.ready(other)
        wait_for((rooted.volumes / "h1/pid").exists)
        through = f"/proc/$(cat ~/pid)/root{rooted.volumes}"
        said = run(
            rooted,
            f"cat {through}/h1/pid; echo x > {through}/v1/file; ls {through} {through}/v1",
            home("h1"),
            data("v1", read_only=True),
        )
        assert said.split()[0] == (rooted.volumes / "h1/pid").read_text().strip()
        assert "Directory nonexistent" in said  # to write to it
        assert "No such file" in said  # to list it
        assert (rooted.volumes / "v1/file").read_text() == "kept\n"

    def test_the_home_stays_where_it_was_and_writable(self, rooted):
        said = run(
            rooted,
            "echo a > ~/a && cat ~/a && pwd",
            home("h1"),
            data("v1", read_only=True),
        )
        assert said == f"a\n{rooted.volumes}/h1\n"
        assert (rooted.volumes / "h1/a").read_text() == "a\n"

    def test_two_workspaces_on_one_home_each_see_their_own(self, rooted):
        def one(name):
            script = f"until [ -e ~/both ]; do sleep .05; done; ls ~/volumes/ > ~/saw-{name}"
            return rooted.shell(script, mounts=(home("h1"), data(f"v-{name}", name)))

        specs = [one("a"), one("b")]
        for spec in specs:
            rooted.ready(spec)
        (rooted.volumes / "h1/both").touch()
        for spec in specs:
            rooted.until(spec.uid, Seen.EXITED)
        assert (rooted.volumes / "h1/saw-a").read_text() == "a\n"
        assert (rooted.volumes / "h1/saw-b").read_text() == "b\n"

    def test_the_machine_keeps_its_own_mounts(self, rooted):
        def ours(mounts):
            """Without what others mount meanwhile: a cluster beside us makes some all the time."""
            places = [line.split()[1] for line in mounts.splitlines()]
            of_all = ("/proc", "/tmp", "/dev/shm")
            return [p for p in places if p in of_all or p.startswith(str(rooted.volumes.parent))]

        before = ours(Path("/proc/self/mounts").read_text())
        spec = rooted.shell(
            "cat /proc/self/mounts > ~/seen; echo > ~/done; sleep 60",
            mounts=(home("h1"), data("v1", read_only=True)),
        )
        rooted.ready(spec)
        wait_for((rooted.volumes / "h1/done").exists)
        seen = ours((rooted.volumes / "h1/seen").read_text())
        assert {str(rooted.volumes), "/proc"} <= set(seen)
        assert len(seen) > len(before)
        assert ours(Path("/proc/self/mounts").read_text()) == before

    def test_nothing_in_a_volume_changes_who_runs(self, rooted):
        said = run(rooted, "cat /proc/self/mounts", home("h1"), data("v1"))
        line = next(line for line in said.splitlines() if "/volumes/data " in line)
        assert {"nosuid", "nodev"} <= set(line.split()[3].split(","))


@real
def test_where_links_must_do_that_is_told(ordinary):
    assert ordinary.driver.probe().isolation["read_only_volumes"] is False
    said = run(ordinary, "readlink $BERTH_VOLUMES/data", data("v1", read_only=True))
    assert said.strip() == f"{ordinary.volumes}/v1"


class TestShared:
    pytestmark = root

    def test_every_member_reads_and_writes_what_another_made(self, rooted):
        run(
            rooted,
            "cd $BERTH_VOLUMES/data; echo a > file; mkdir -p d/e; echo a > d/e/f; umask",
            data("v1"),
            owner="alice",
        )
        said = run(
            rooted,
            "cd $BERTH_VOLUMES/data; echo b >> file; echo b >> d/e/f; echo b > d/e/new;"
            " rm file; cat d/e/f; mv d/e d/moved",
            data("v1"),
            owner="bob",
        )
        assert said == "a\nb\n"
        said = run(
            rooted,
            "cd $BERTH_VOLUMES/data; echo c >> d/moved/new; cat d/moved/new",
            data("v1"),
            owner="alice",
        )
        assert said == "b\nc\n"
        assert (rooted.volumes / "v1").stat().st_mode & 0o7777 == 0o2770
        assert (rooted.volumes / "v1").stat().st_uid == 0

    def test_homes_stay_private(self, rooted):
        run(rooted, "echo secret > ~/file; umask", home("h1"), data("v1"), owner="alice")
        assert (rooted.volumes / "h1/file").stat().st_mode & 0o077 == 0
        said = run(rooted, f"cat {rooted.volumes}/h1/file", data("v1"), owner="bob")
        assert "secret" not in said

    def test_c8_a_sibling_volume_that_was_not_given_is_closed(self, rooted):
        run(rooted, "echo secret > $BERTH_VOLUMES/data/file", data("v1"), owner="alice")
        peek = f"id -G; cat {rooted.volumes}/v1/file; ls {rooted.volumes}/v1 {rooted.volumes}"
        for options in (
            {"owner": "alice"},  # a member, but not with this volume
            {"owner": "bob", "project": "another" + rooted.project},
        ):
            for mounts in ((), (data("v2"),)):
                said = run(rooted, peek, *mounts, **options)
                assert "secret" not in said
                assert said.count("Permission denied") + said.count("No such file") == 3

    def test_c8_a_link_inside_leads_root_nowhere(self, rooted):
        """Planted links are neither followed when it is measured, made again nor removed."""
        precious = rooted.folder / "precious"
        precious.mkdir(mode=0o755)
        (precious / "file").write_bytes(b"x" * 3_000_000)
        before = precious.stat()
        run(
            rooted,
            f"cd $BERTH_VOLUMES/data; ln -s {precious} folder; ln -s {precious}/file file;"
            " ln -s /etc/shadow shadow; ln -s / top; mkdir d; ln -s ../../.. d/up",
            data("v1"),
        )
        rooted.driver.ensure_volume("v1", project=rooted.project, owner="")
        assert rooted.driver.volume_usage("v1") < 1_000_000
        rooted.driver.remove_volume("v1")
        wait_for(lambda: not list(rooted.volumes.glob(".gone-*")))
        after = precious.stat()
        assert (after.st_uid, after.st_mode, after.st_ctime) == (
            before.st_uid,
            before.st_mode,
            before.st_ctime,
        )
        assert (precious / "file").stat().st_size == 3_000_000

    def test_a_volume_is_either_shared_or_somebodys(self, rooted):
        rooted.driver.ensure_volume("v1", project=rooted.project, owner="alice")
        with pytest.raises(DriverError, match="another user"):
            rooted.driver.ensure_volume("v1", project=rooted.project, owner="")
        rooted.driver.ensure_volume("v2", project=rooted.project, owner="")
        with pytest.raises(DriverError, match="another user"):
            rooted.driver.ensure_volume("v2", project=rooted.project, owner="alice")

    def test_another_project_takes_it_over_with_all_that_is_in_it(self, rooted):
        run(rooted, "echo a > $BERTH_VOLUMES/data/file", data("v1"), owner="alice")
        other = {"project": "another" + rooted.project, "owner": "carol"}
        rooted.driver.ensure_volume("v1", project=other["project"], owner="")
        said = run(rooted, "cd $BERTH_VOLUMES/data; echo b >> file; cat file", data("v1"), **other)
        assert said == "a\nb\n"

    def test_the_number_of_a_group_is_never_given_twice(self, rooted):
        def number(uid):
            rooted.driver.ensure_volume(uid, project=rooted.project, owner="")
            return (rooted.volumes / uid).stat().st_gid

        first = number("v1")
        rooted.driver.remove_volume("v1")
        from runtime.drivers.local.users import group_name_for

        subprocess.run(["groupdel", group_name_for("v1")], check=True)
        assert number("v2") > first
        assert number("v1") == first

    def test_without_acl_the_umask_opens_for_the_group(self, rooted):
        """Disks without ACL exist: the group's own bits do there what the list does elsewhere."""
        rooted.driver.ensure_volume("v1", project=rooted.project, owner="")
        os.removexattr(rooted.volumes / "v1", "system.posix_acl_default")
        assert users.umask_for([rooted.volumes / "v1"]) == 0o007
        assert users.umask_for([]) == 0o077

    def test_a_kill_between_the_steps_of_making_is_made_good(self, rooted):
        folder = rooted.volumes / "v1"
        folder.mkdir(mode=0o700)
        rooted.driver.ensure_volume("v1", project=rooted.project, owner="")
        assert folder.stat().st_mode & 0o7777 == 0o2770
        assert users.has_acl(folder)

    def test_a_link_in_place_of_a_volume_is_refused(self, rooted):
        other = rooted.folder / "other"
        other.mkdir(mode=0o755)
        (rooted.volumes / "v1").symlink_to(other)
        for owner in ("", "alice"):
            with pytest.raises(DriverError):
                rooted.driver.ensure_volume("v1", project=rooted.project, owner=owner)
        assert other.stat().st_mode & 0o7777 == 0o755
        assert other.stat().st_uid == 0


@real
def test_c9_a_removed_volume_goes_with_folders_that_were_closed(supervisor):
    script = "cd $BERTH_VOLUMES/data; mkdir -p a/b; echo x > a/b/c; chmod 555 a/b; chmod 0 a"
    run(supervisor, script, data("v1"))
    supervisor.driver.remove_volume("v1")
    wait_for(lambda: not list(supervisor.volumes.glob(".gone-*")))


@real
def test_as_an_ordinary_user_a_shared_volume_is_a_plain_folder(ordinary):
    ordinary.driver.ensure_volume("v1", project=ordinary.project, owner="")
    assert (ordinary.volumes / "v1").stat().st_mode & 0o7777 == 0o700
    run(ordinary, "echo a > $BERTH_VOLUMES/data/f", data("v1"), owner="alice")
    assert run(ordinary, "cat $BERTH_VOLUMES/data/f", data("v1"), owner="bob") == "a\n"
