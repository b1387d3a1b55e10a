"""``python3 -m dataplane.copy plan.json``: carry out one plan and say how it ended."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from pathlib import Path

from dataplane.copy import plan as plans
from dataplane.copy import report
from dataplane.copy.problems import Final, Stop, exit_of
from dataplane.copy.progress import Progress
from dataplane.copy.report import Reporter, last_words
from dataplane.copy.run import run
from dataplane.safepath import OWN

# A page of a listing makes ten thousand small things and no ring of them: what is looked through
# for rings once in a while need not be looked through at each page.
_GARBAGE = (50_000, 20, 20)
_TRACE = 100  # lines of a fault of our own
TOKEN = "BERTH_REPORT_TOKEN"  # noqa: S105 - the name of the variable
# Nothing of these may lend an identity, a way or a key log to what a tenant asked for.
_AMBIENT = ("AWS_", "GOOGLE_", "CLOUDSDK_", "BOTO", "SSLKEYLOGFILE", "SSL_CERT_", "OPENSSL_CONF")


def main(arguments: list[str]) -> int:
    for name in [n for n in os.environ if n.startswith(_AMBIENT) or n.lower().endswith("_proxy")]:
        del os.environ[name]
    token = os.environ.pop(TOKEN, "")
    gc.freeze()
    gc.set_threshold(*_GARBAGE)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    if len(arguments) != 1:
        sys.stderr.write("usage: python3 -m dataplane.copy plan.json\n")
        return exit_of(Final.BAD_PLAN)
    try:
        path = Path(arguments[0])
        plan = plans.read(path.read_bytes(), beside=path.parent)
    except OSError:
        return _ended(Stop(Final.BAD_PLAN, "The plan of this load can't be read."))
    except Stop as refused:
        return _ended(refused)
    progress = Progress()
    log = progress.log
    log.start(report.Watch(progress).lines, [token, *report.secrets_of(plan)])
    for line in report.opening(plan):
        log.say(line)
    reporter = Reporter(plan, progress, token, stopping)
    reporter.start()
    try:
        order = run(plan, progress, stopping)
    except Exception:  # noqa: BLE001 - whatever it is, the portal is told and the log has it
        import traceback

        for line in traceback.format_exc().splitlines()[-_TRACE:]:
            log.say(line)
        order = Stop(Final.INTERNAL, "The load ended by a fault of its own program; see its log.")
    log.end(report.ending(progress, order))  # first: the portal may keep us waiting for minutes
    reporter.end(order, f"{OWN}/loads/{plan.uid}/manifest.jsonl")
    return exit_of(order.final)


def _ended(order: Stop) -> int:
    last_words({"code": str(order.final), "message": order.message})
    sys.stderr.write(f"{order.final}: {order.message}\n")
    return exit_of(order.final)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
