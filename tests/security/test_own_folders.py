"""Started as root, Berth prepares folders that the portal's user could have tampered with."""

import os
import pwd
from pathlib import Path

import pytest

from portal.server import identity, up
from portal.server.paths import Paths, Refusal

pytestmark = [pytest.mark.real, pytest.mark.root]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_link_in_place_of_the_portals_folder_is_not_followed(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    target = tmp_path / "etc"
    target.mkdir(mode=0o755)
    (target / "passwd").write_text("root's own")
    link = tmp_path / "log"
    link.symlink_to(target)
    os.chown(link, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    identity.own(link, nobody)
    assert target.stat().st_mode & 0o777 == 0o755
    assert (target / "passwd").stat().st_uid == 0
    assert not link.is_symlink()
    assert (link.stat().st_uid, link.stat().st_mode & 0o777) == (nobody.pw_uid, 0o700)


@pytest.mark.parametrize("number", [-1, 0, 1])
def test_down_as_root_ends_no_process_that_the_portals_user_names(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = pwd.getpwnam("nobody")
    places = Paths(tmp_path)
    places.run.mkdir()
    os.chown(places.run, nobody.pw_uid, nobody.pw_gid)
    ended: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _signal: ended.append(pid))
    with pytest.raises(Refusal, match="not Berth's"):
        up.end(places, number)
    assert not ended
