"""``make test``: what the whole suite needs of this machine, then the suite, then the tear-down.

What can't be had is said by name and counted, and its tests are left out; nothing is silently
skipped.  The last line is pytest's own summary.
"""

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.provision_tests import Services, notebook_environments, provision  # noqa: E402
from tools.setup_shell import SetupError, explain, say  # noqa: E402
from tools.suite_cluster import Cluster  # noqa: E402

SUMMARY = re.compile(r"(\d+ (passed|failed|error|skipped|deselected)|no tests ran).* in [\d.]+s")
MARKS = ("postgres", "redis", "browser", "root", "gpu", "cluster", "deploy")
# One lane waits most of the time (for the compiler, then for pods), so two cores carry one more
# worker than they are; more would make what is timed inside the tests unfair.
WORKERS = ("-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder")

# Two busy cores drive some hundred real programs: one pause in the wrong place fails a test. Three
# of a run are tried once more, and how they failed at first is told: each is a fault to find. What
# looks for leaks between tenants says ``flaky(reruns=0)``: open once is open.
SECOND_TRIES = ("--reruns", "1", "--max-suite-reruns", "3", "--rerun-show-tracebacks")

# Why each one was skipped, beside what failed: said before the summary, which stays last.
REASONS = "-rsfE"

LIMIT_MIN = int(os.environ.get("BERTH_TEST_LIMIT_MIN", "80"))
LAST_WORDS_S = 120


def main(arguments: list[str]) -> int:
    say("Preparing the tests:")
    missing = provision()
    notebook_environments()
    folder = Path(tempfile.mkdtemp(prefix="berth-suite-"))
    services, cluster = Services(), Cluster(folder, missing)
    # A kill must reach the throwaway servers as well.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))
    try:
        env = services.start(missing) | cluster.start()
        status, summary = run_pytest(arguments, missing, env)
    finally:
        services.stop()
        clean = cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
    say(summary)
    return status if clean else status or 1


def run_pytest(
    arguments: list[str], missing: dict[str, str], env: dict[str, str]
) -> tuple[int, str]:
    left_out = [mark for mark in MARKS if mark in missing]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *WORKERS, *SECOND_TRIES]
    command += [REASONS, "--durations=40", *arguments]
    if left_out:
        command += ["-m", expression(arguments, left_out)]
        for mark in left_out:
            say(f"  without the tests marked {mark}: {missing[mark]}")
    say(f"Running the tests{' (all of them)' if not left_out and not arguments else ''}:")
    env = {**os.environ, **env}
    # Hundreds of short Pythons are started: without compiled files each compiles all of Berth.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    with relaying(command, env) as process, patience(process):
        ended = relayed(process)
    if left_out:
        say(f"Left out by what this machine lacks: {', '.join(left_out)} (reasons above).")
    return ended


def expression(arguments: list[str], left_out: list[str]) -> str:
    """What ``-m`` says: the last one counts for pytest, so one that was asked for is kept in it."""
    asked = [f"({word})" for flag, word in itertools.pairwise(arguments) if flag == "-m"][-1:]
    return " and ".join([*asked, *(f"not {mark}" for mark in left_out)])


@contextmanager
def relaying(command: list[str], env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        except BaseException:
            process.terminate()
            raise


def relayed(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Shows pytest's output as it comes, and keeps its summary for the very end."""
    summary = "pytest gave no summary"
    for line in process.stdout or ():
        if SUMMARY.search(line):
            summary = line.strip()
        else:
            print(line, end="", flush=True)
    return process.wait(), summary


@contextmanager
def patience(process: subprocess.Popen[str]) -> Iterator[None]:
    """Ends a run that takes too long: it fails, but with all that is known by then.

    Whoever waits for it would cut it off a little later, and see nothing.
    """

    def interrupt() -> None:
        say(f"\nThe tests are ended after {LIMIT_MIN} minutes, with some not run.")
        process.send_signal(signal.SIGINT)

    limits = (
        Timer(LIMIT_MIN * 60, interrupt),
        Timer(LIMIT_MIN * 60 + LAST_WORDS_S, process.kill),
    )
    for timer in limits:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        for timer in limits:
            timer.cancel()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except SetupError as error:
        sys.stderr.write(f"\n{error}\n")
        sys.exit(1)
    except OSError as error:
        sys.stderr.write(f"\n{explain(error)}\n")
        sys.exit(1)
