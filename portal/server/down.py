"""``berth down`` and ``berth status``."""

import contextlib
import json
import os
import signal
import socket
import time
from pathlib import Path

from portal.server import standby
from portal.server.paths import Paths, Refusal, running

PATIENCE_S = 60.0
SHUTDOWN_TIMEOUT_S = 60.0
SILENT_S = 60.0  # the worker makes a turn each second


def down(*, workspaces: bool) -> int:
    places = Paths.from_environment()
    number = running(places)
    if number:
        end(places, number)
    else:
        print(f"Berth does not run on {places.var}.")
    if workspaces:
        end_workspaces(places)
    return 0


def end(places: Paths, number: int) -> None:
    check_whose(places, number)
    try:
        os.kill(number, signal.SIGTERM)
    except PermissionError as error:
        message = f"Berth runs as another user (process {number}); run this as that user or root."
        raise Refusal(message) from error
    except ProcessLookupError:
        return
    deadline = time.monotonic() + PATIENCE_S
    while running(places) == number:
        if time.monotonic() > deadline:
            message = f"Process {number} has not ended after {PATIENCE_S:.0f} s; see var/log."
            raise Refusal(message)
        time.sleep(0.05)
    print("Berth has ended.")


def check_whose(places: Paths, number: int) -> None:
    """The portal's user wrote the number: it must not make root end a process that is not his."""
    try:
        owner = Path(f"/proc/{number}").stat().st_uid
    except OSError:
        owner = None
    if number <= 0 or owner not in {None, places.run.stat().st_uid}:
        message = f"{places.lock} names process {number}, which is not Berth's; nothing was ended."
        raise Refusal(message)


def end_workspaces(places: Paths) -> None:
    """Asks the supervisor itself: it takes the processes down and then ends."""
    path = Path(os.environ.get("BERTH_SUPERVISOR_SOCKET") or places.var / "supervisor" / "sock")
    request = {"id": 1, "verb": "shutdown", "workspaces": True}
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(SHUTDOWN_TIMEOUT_S)
        try:
            one.connect(str(path))
        except OSError:
            print("No workspaces run: there is no supervisor.")
            return
        with contextlib.suppress(OSError):
            one.sendall(json.dumps(request).encode() + b"\n")
            while one.recv(65536):  # it ends the connection when it is gone
                pass
    print("All workspaces have been ended.")


def status() -> int:
    places = Paths.from_environment()
    number = running(places)
    if number is None:
        print(f"Berth does not run on {places.var}.")
        return 3
    print(f"Berth runs on {places.var} (process {number}).")
    print(f"The gate to clusters {standby.state_of(places)}.")
    begun = [places.lock.stat().st_mtime]  # the start of the manager, which comes before a turn
    with contextlib.suppress(FileNotFoundError):
        begun.append(standby.turn_file(places.var).stat().st_mtime)
    idle = time.time() - max(begun)
    if idle > SILENT_S:
        print(
            f"The worker has made no turn for {idle:.0f} s: nothing starts or stops."
            f" See {places.log / 'worker.log'}, and start Berth again."
        )
        return 1
    return 0
