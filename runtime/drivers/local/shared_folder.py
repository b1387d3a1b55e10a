"""The folder of a volume that several system users share: a group, and a default ACL.

The group is inherited (set-group-ID), and the default ACL makes what anybody puts there
writable for the others in spite of the closed umask of workloads. Where the disk knows no ACL,
workloads that see such a volume get an open group umask instead: their own group is theirs
alone, so nothing else opens by it.
"""

import os
import stat
import struct
from pathlib import Path

from runtime.drivers.local.json_lines import Refused

MODE = 0o2770
CLOSED_UMASK, GROUP_UMASK = 0o077, 0o007
_ACL = "system.posix_acl_default"
_USER, _GROUP, _OTHER, _NOBODY = 0x01, 0x04, 0x20, 0xFFFFFFFF
# Version 2, then (tag, permissions, id) for the owner, the group and everybody else.
_DEFAULT = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, bits, _NOBODY) for tag, bits in ((_USER, 7), (_GROUP, 7), (_OTHER, 0))
)


def make(folder: Path, gid: int) -> None:
    """Make it root's with this group; refuse one that is somebody else's. May be repeated."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and found.st_gid in (0, gid)
        if not ours:
            raise Refused(
                "error", f"folder {folder.name} belongs to another user", reason="start-failed"
            ) from None
        if found.st_gid == gid and found.st_mode & 0o7777 == MODE and has_acl(folder):
            return
    os.chown(folder, 0, gid, follow_symlinks=False)
    folder.chmod(MODE)  # its parent is root's alone: nobody can have put a link here
    try:
        os.setxattr(folder, _ACL, _DEFAULT)
    except OSError:
        return  # no ACL on this disk: ``umask_for`` sees it


def has_acl(folder: Path) -> bool:
    try:
        return os.getxattr(folder, _ACL) == _DEFAULT
    except OSError:
        return False


def umask_for(folders: list[Path]) -> int:
    """Return the umask of a process that sees these shared folders."""
    return CLOSED_UMASK if all(has_acl(folder) for folder in folders) else GROUP_UMASK
