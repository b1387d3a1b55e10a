"""What tests and the development cluster take from Debian, as root."""

from collections.abc import Iterable

from tools.setup_shell import run

# Another apt may be at work, on many machines by itself every day.
PATIENT = ("-o", "DPkg::Lock::Timeout=600")
QUIET = ("-qq", "-o", "Dpkg::Use-Pty=0", "-o", "Dpkg::Options::=--force-confold")


def install_debian(packages: Iterable[str]) -> None:
    """Install them without a question; a SetupError says what apt-get ended with.

    Debian starts a new service at once, and ours are started by us: at run level 1 it does not.
    """
    env = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "RUNLEVEL": "1"}
    run(["apt-get", *PATIENT, "update", "-qq"], env=env)
    install = ["apt-get", *PATIENT, "install", *QUIET, "-y", "--no-install-recommends"]
    run([*install, *packages], env=env)
