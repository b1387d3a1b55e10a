"""From a fresh clone to a running portal: ``python3 tools/bootstrap.py run``.

Standard library only, and no syntax newer than Python 3.6 in this file, so that an old Python
reaches the sentence that says so.  Every step leaves a stamp of what it was made from: the next
start skips what did not change, and a step that was interrupted is done again.

    run [options]   everything the portal needs, then ``python -m portal.server up [options]``
    server          the same without starting it
    serving [names] what this machine serves models with; tensorflow and pytorch where named
    dev             the developers' environment in .venv
    test [options]  that, what the tests need of this machine, and the tests of `make test`
    long [options]  the same with all tests there are
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  reached by those who have an old one
    sys.stderr.write(
        "Berth needs Python 3.11 or newer; this is Python {}.{}.\nInstall a newer one, or name one"
        " that is there: make run PYTHON=/path/to/python3.11\n".format(*sys.version_info[:2])
    )
    sys.exit(3)

import os
import signal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import setup_steps as steps
from tools.setup_shell import SetupError, explain, say

PORTAL = ["-m", "portal.server"]


def main(argv: list[str]) -> int:
    os.umask(0o022)  # what is built here must be readable by the user that runs the portal
    verb, rest = (argv[0] if argv else "run"), argv[1:]
    if verb in ("run", "server"):
        python = steps.prepare_server()
        if verb == "run":
            become(python, [*PORTAL, "up", *rest])
    elif verb == "serving":
        steps.prepare_serving(rest)
    elif verb == "dev":
        steps.prepare_developers()
    elif verb in ("test", "long"):
        python = steps.prepare_developers()
        become(python, [str(steps.ROOT / "tools/run_tests.py"), verb, *rest])
    else:
        sys.stderr.write(__doc__ + "\n")
        return 2
    return 0


def become(python: Path, arguments: list[str]) -> None:
    """Replaces this process, so that signals and the exit code are those of the portal."""
    sys.stdout.flush()
    os.chdir(str(steps.ROOT))
    os.execv(str(python), [str(python), *arguments])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        say("Interrupted. Start again to go on where it stopped.")
        sys.exit(130)
    except SetupError as error:
        sys.stderr.write(f"\n{error}\n")
        sys.exit(1)
    except OSError as error:
        sys.stderr.write(f"\n{explain(error)}\n")
        sys.exit(1)
