"""``python -m devcluster COMMAND``, as its help lists them; `make` calls it."""

import argparse
import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from devcluster.layout import Layout, cache
from devcluster.programs import OF_THE_CLUSTER, PROGRAMS
from tools.setup_shell import SetupError, explain, say

PODS = "pods"


@contextmanager
def alone() -> Iterator[None]:
    """Two at once would undo each other's work; the second waits."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another command works on the cluster; waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def up(names: list[str]) -> int:
    from devcluster.up import up as bring_up

    if names not in ([], [PODS]):
        raise SetupError(f"`up` brings up all, or what runs pods: `up {PODS}`.")
    with alone():
        bring_up(Layout.usual(), whole=not names)
    return 0


def down(_: list[str]) -> int:
    from devcluster.down import down as take_down

    with alone():
        return 1 if take_down(Layout.usual()) else 0


def status(_: list[str]) -> int:
    from devcluster.status import report

    return report(Layout.usual())


def storage(_: list[str]) -> int:
    from devcluster.storage import add

    with alone():
        add(Layout.usual())
    return 0


def training(_: list[str]) -> int:
    from devcluster.training import add

    with alone():
        add(Layout.usual())
    return 0


def katib(_: list[str]) -> int:
    from devcluster.katib import add

    with alone():
        add(Layout.usual())
    return 0


def kserve(_: list[str]) -> int:
    from devcluster.kserve import add

    with alone():
        add(Layout.usual())
    return 0


def build(names: list[str]) -> int:
    from devcluster.programs import build as build_one

    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        raise SetupError(f"No such program: {', '.join(unknown)}. Known: {', '.join(PROGRAMS)}.")
    for name in names or OF_THE_CLUSTER:
        program = PROGRAMS[name]
        if program.built():
            say(f"  {name} {program.version} is built: {program.kept}")
        else:
            build_one(program, lambda text: say(f"  built {text}"))
    return 0


def lock(names: list[str]) -> int:
    from devcluster.lock import lock as lock_one

    for name in names or PROGRAMS:
        lock_one(PROGRAMS[name])
    return 0


COMMANDS = {
    "up": up,
    "down": down,
    "status": status,
    "storage": storage,
    "training": training,
    "katib": katib,
    "kserve": kserve,
    "build": build,
    "lock": lock,
}


HELP = """\
up       bring the cluster up; what runs is left alone. `up pods` without the simulated fleet, the
         queue and the metrics: pods run, and another `up` brings the rest
down     take it down, and look that nothing of it is left
status   what runs, and what does not
storage  add storage that makes snapshots and grows to the cluster that is up: builds what it
         needs (once, some minutes of CPU) and makes the classes berth-snapshots, whose volumes
         grow, and berth-fixed, whose volumes don't; later starts bring both by themselves
training add the operators of training (MPI, trainer, JobSet) to the cluster that is up; later
         starts bring them by themselves
katib    add Katib, which chooses the values of searches, and its database; later starts bring them
kserve   add KServe, which runs models; later starts bring it
build    build programs, all of the cluster's when none is named
lock     pin the modules of programs again, after a change of a version
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="devcluster",
        description=__doc__,
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("names", nargs="*", help="programs, for build and lock; `pods` for up")
    chosen = parser.parse_args()
    return COMMANDS[chosen.command](chosen.names)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SetupError as error:
        sys.stderr.write(f"\n{error}\n")
        sys.exit(1)
    except OSError as error:
        sys.stderr.write(f"\n{explain(error)}\n")
        sys.exit(1)
