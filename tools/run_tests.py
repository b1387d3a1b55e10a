"""``make test`` and ``make test-long``: what the tests need, the tests, the tear-down.

``make test`` proves each capability once on real parts; ``make test-long`` runs all tests there are
and writes ``docs/test-report.md``.  What can't be had is said by name and counted, and its tests
are left out; nothing is silently skipped.  The last line is pytest's own summary.

    test [options]   all tests but those marked ``long`` or ``deploy``
    long [options]   all tests; without options it writes the report
"""

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import test_report  # noqa: E402
from tools.provision_tests import Services, notebook_environments, provision  # noqa: E402
from tools.setup_shell import SetupError, explain, say  # noqa: E402
from tools.suite_cluster import LATE, OPERATORS, Cluster  # noqa: E402

SUMMARY = re.compile(r"(\d+ (passed|failed|error|skipped|deselected)|no tests ran).* in [\d.]+s")
MARKS = ("postgres", "redis", "browser", "root", "gpu", "cluster", "deploy")
# Two lanes wait most of the time (for the compiler, then for pods), so two cores carry more workers
# than they are; still more would make what is timed inside the tests unfair.
WORKERS = ("-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder")

# Why each one was skipped, beside what failed: said before the summary, which stays last.
REASONS = "-rsfE"
LAST_WORDS_S = 120


@dataclass(frozen=True)
class Tier:
    without: tuple[str, ...]  # marks whose tests are left out
    options: tuple[str, ...]
    programs: tuple[str, ...]  # built by Go besides those of the cluster and the stores
    operators: tuple[str, ...]  # added to the cluster also where they were never built
    limit_min: int


TIERS = {
    "test": Tier(without=("long", "deploy"), options=(), programs=(), operators=(), limit_min=80),
    # Floods, kills and outages over hundred real programs on two busy cores: three of a run are
    # tried once more, and the report says how they failed at first.  What looks for leaks between
    # tenants says ``flaky(reruns=0)``: open once is open.
    "long": Tier(
        without=(),
        options=("--reruns", "1", "--max-suite-reruns", "3", "--rerun-show-tracebacks"),
        programs=LATE,
        operators=OPERATORS,
        limit_min=240,
    ),
}


def main(verb: str, arguments: list[str]) -> int:
    tier = TIERS[verb]
    say("Preparing the tests:")
    missing = provision()
    notebook_environments()
    folder = Path(tempfile.mkdtemp(prefix="berth-suite-"))
    services, cluster = Services(), Cluster(folder, missing, tier.programs, tier.operators)
    # A kill must reach the throwaway servers as well.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))
    begun, used = time.monotonic(), machine_cpu_s()
    results = folder / "results.xml"
    try:
        env = services.start(missing) | cluster.start()
        status, summary = run_pytest(tier, [f"--junitxml={results}", *arguments], missing, env)
        cost = (
            f"{time.monotonic() - begun:.0f} s; CPU of this machine {machine_cpu_s() - used:.0f} s"
        )
        cost += f", {cluster.compiling_s:.0f} s of it the compiler"
        if verb == "long" and not arguments and results.exists():
            test_report.write(results, ROOT / "docs/test-report.md", missing, cost)
    finally:
        services.stop()
        clean = cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
    say(f"From the first test to the last: {cost}.")
    say(summary)
    return status if clean else status or 1


def machine_cpu_s() -> float:
    """CPU seconds that this machine has used, or 0 where it does not say (no Linux)."""
    try:
        words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    except OSError:
        return 0.0
    user, nice, system, _idle, _waiting, irq, softirq = (int(word) for word in words[:7])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def run_pytest(
    tier: Tier, arguments: list[str], missing: dict[str, str], env: dict[str, str]
) -> tuple[int, str]:
    lacking = [mark for mark in MARKS if mark in missing]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *WORKERS, *tier.options]
    command += [REASONS, "--durations=40", *arguments]
    if left_out := [*tier.without, *lacking]:
        command += ["-m", expression(arguments, left_out)]
    for mark in lacking:
        say(f"  without the tests marked {mark}: {missing[mark]}")
    say("Running the tests:")
    env = {**os.environ, **env}
    # Hundreds of short Pythons are started: without compiled files each compiles all of Berth.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    limit_min = int(os.environ.get("BERTH_TEST_LIMIT_MIN", tier.limit_min))
    with relaying(command, env) as process, patience(process, limit_min):
        ended = relayed(process)
    if lacking:
        say(f"Left out by what this machine lacks: {', '.join(lacking)} (reasons above).")
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
def patience(process: subprocess.Popen[str], limit_min: int) -> Iterator[None]:
    """Ends a run that takes too long: it fails, but with all that is known by then.

    Whoever waits for it would cut it off a little later, and see nothing.
    """

    def interrupt() -> None:
        say(f"\nThe tests are ended after {limit_min} minutes, with some not run.")
        process.send_signal(signal.SIGINT)

    limits = (
        Timer(limit_min * 60, interrupt),
        Timer(limit_min * 60 + LAST_WORDS_S, process.kill),
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
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except SetupError as error:
        sys.stderr.write(f"\n{error}\n")
        sys.exit(1)
    except OSError as error:
        sys.stderr.write(f"\n{explain(error)}\n")
        sys.exit(1)
