"""Started as root: the portal runs as a system user of its own, only the supervisor stays root."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from portal.server.paths import ROOT, Paths, Refusal

NAME = "berth"
ROOT_ONLY = "BERTH_ROOT_ONLY"
OPEN_TO_PASS = 0o1771  # sticky: the portal's user can't replace what belongs to root in there
CHECK = "import django, ssl, sqlite3"


def service_user(places: Paths) -> pwd.struct_passwd | None:
    """Return the user that runs the portal; None where it was said that root does (on stderr).

    Refusal where this machine can't have that user: what serves the network is not root unasked.
    """
    user = existing() or create()
    if user is None:
        problem = f"this machine has no useradd to make the user {NAME}"
    else:
        problem = cannot_run(user)
    if problem and os.environ.get(ROOT_ONLY) == "yes":
        print(
            f"  warning: running without user isolation because {problem}. The portal itself and"
            " all work run as root.",
            file=sys.stderr,
            flush=True,
        )
        return None
    if user is None or problem:
        message = (
            f"Started as root, Berth runs as the user {NAME}, but {problem}. Or start it as an"
            f" ordinary user; or, on a machine of yours alone, as root: {ROOT_ONLY}=yes make run"
        )
        raise Refusal(message)
    hand_over(places, user)
    require_way_in(places, user)
    return user


def existing() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        return None


def create() -> pwd.struct_passwd | None:
    program = shutil.which("useradd") or "/usr/sbin/useradd"
    command = [program, "--system", "--user-group", "--no-create-home"]
    command += ["--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", NAME]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    print("  made the system user berth, which runs the portal", flush=True)
    return existing()


def cannot_run(user: pwd.struct_passwd) -> str:
    """Why this user can't run what lies here; empty when it can."""
    try:
        if not succeeds_as(user, CHECK):
            return f"the user {NAME} can't use the Python packages beside {sys.executable}"
    except OSError:
        return f"the user {NAME} can't run {sys.executable} (a folder above it is closed)"
    if not succeeds_as(user, f"open({str(ROOT / 'manage.py')!r}).close()"):
        return f"the user {NAME} can't read {ROOT}; move it to /opt or /srv"
    return ""


def succeeds_as(user: pwd.struct_passwd, code: str) -> bool:
    """Whether this Python code ends well as that user; an OSError if it can't run Python."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        cwd="/",
        env={"PATH": os.defpath},
        capture_output=True,
        check=False,
    )
    return not done.returncode


def hand_over(places: Paths, user: pwd.struct_passwd) -> None:
    """``var`` belongs to root and can be written by berth; what workspaces use stays root's."""
    try:
        places.var.mkdir(parents=True, exist_ok=True)
        os.chown(places.var, 0, user.pw_gid)
        places.var.chmod(OPEN_TO_PASS)
        for folder in (*places.private, places.var / "static"):
            own(folder, user)
        for name in ("workloads", "volumes", "environments"):
            folder = places.var / name
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755 if name == "environments" else 0o711)
        supervisor = places.var / "supervisor"
        supervisor.mkdir(exist_ok=True)
        os.chown(supervisor, 0, user.pw_gid)
        supervisor.chmod(0o750)
        files = ("secrets.json", "installation", "berth.sqlite3", "berth.sqlite3-wal")
        for name in (*files, "berth.sqlite3-shm"):
            if (places.var / name).exists():
                os.chown(places.var / name, user.pw_uid, user.pw_gid, follow_symlinks=False)
    except OSError as error:
        message = f"{error.filename} can't be prepared: {error.strerror}."
        raise Refusal(message) from error


def require_way_in(places: Paths, user: pwd.struct_passwd) -> None:
    """What is the portal's own is of no use to it below a folder that it may not enter."""
    if not succeeds_as(user, f"import os; os.listdir({str(places.run)!r})"):
        message = (
            f"The user {NAME}, which runs the portal, can't reach {places.var}: a folder above it"
            f" is closed. Let {NAME} pass there (chmod o+x), or name another folder with BERTH_VAR."
        )
        raise Refusal(message)


def require_roots(environments: Path) -> None:
    """Root writes there, and runs what it put there: nobody else may have a hand in it."""
    if (place := changeable(environments.absolute(), {0, ROOT.stat().st_uid})) is not None:
        message = (
            f"Berth makes environments as root in {environments}, and others than root can change"
            f" {place}. Give it to root (chown root, chmod go-w), or name another folder with"
            " BERTH_ENVIRONMENTS_DIR."
        )
        raise Refusal(message)


def changeable(folder: Path, trusted: set[int]) -> Path | None:
    """Return the first place on the way to a folder that others than these users can change.

    In a folder with the sticky bit what is there is its owner's. Who can change the program, or
    the folders above it, has a hand in all anyway.
    """
    places = [*reversed(folder.parents), folder]
    for place, below in zip(places, [*places[1:], None], strict=True):
        try:
            found = place.lstat()
        except FileNotFoundError:
            return None  # root makes it in the one before
        is_link = stat.S_ISLNK(found.st_mode)
        is_sticky = found.st_mode & stat.S_ISVTX and below is not None and below.exists()
        is_open = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_sticky and not is_link
        if (found.st_uid not in trusted or is_open) and place not in (ROOT, *ROOT.parents):
            return place
        if is_link:
            leads = place.parent / place.readlink()
            return changeable(leads / folder.relative_to(place), trusted)
    return None


def own(folder: Path, user: pwd.struct_passwd) -> None:
    """Make it the portal's. A link that the portal's user may have put there is not followed."""
    if folder.is_symlink():
        folder.unlink()
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != user.pw_uid:  # from a start as root alone
        for place, folders, files in os.walk(folder):
            for name in (*folders, *files):
                os.chown(Path(place) / name, user.pw_uid, user.pw_gid, follow_symlinks=False)
        os.chown(folder, user.pw_uid, user.pw_gid, follow_symlinks=False)
    folder.chmod(0o700)
