"""Running other programs for the set-up, visibly and with errors in one sentence."""

import errno
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TICK_S = 5
TAIL_LINES = 15


class SetupError(Exception):
    """A step that can't go on; the message is what the person at the terminal reads."""


def say(text: str) -> None:
    print(text, flush=True)


def explain(error: OSError) -> str:
    """One sentence that helps, for the errors a machine gives before anything of ours runs."""
    where = error.filename or "a file"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full: {where} could not be written. Free some space and start again."
    if error.errno == errno.EROFS:
        return f"{where} lies on a read-only disk; clone Berth to a folder that can be written."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{where} can't be written by this user; change its owner or use another folder."
    return f"{where}: {error.strerror or error}"


@contextmanager
def step(title: str) -> Any:
    """Shows what is done, that it goes on, and how long it took."""
    begun = time.monotonic()
    print(f"  {title} …", end="", flush=True)
    ended = threading.Event()

    def dots() -> None:
        while not ended.wait(TICK_S):
            print(".", end="", flush=True)

    ticker = threading.Thread(target=dots, daemon=True)
    ticker.start()
    try:
        yield
    except BaseException:
        ended.set()
        print(" failed", flush=True)
        raise
    ended.set()
    ticker.join()
    print(f" {time.monotonic() - begun:.1f} s", flush=True)


def run(
    command: Iterable[object],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    hint: str = "",
) -> str:
    """Returns the output; a failure shows its last lines and ``hint``."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise SetupError(f"{words[0]} is not there. {hint}".strip()) from error
    if done.returncode:
        raise SetupError(failure(words, done.returncode, done.stdout, hint))
    return done.stdout


def failure(words: list[str], code: int, output: str, hint: str) -> str:
    if "No space left on device" in output:
        return "The disk is full. Free some space (du -sh * shows where it went) and start again."
    tail = "\n".join("    " + line for line in output.strip().splitlines()[-TAIL_LINES:])
    return f"{Path(words[0]).name} ended with code {code}:\n{tail}\n{hint}".rstrip()


def works(command: Iterable[object], **options: Any) -> bool:
    try:
        done = subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=30,
            **options,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def digest(*parts: str | Path) -> str:
    """A short hash of texts and of the contents of files."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        total.update(b"\0")
    return total.hexdigest()[:16]


def stamped(stamp: Path, value: str) -> bool:
    try:
        return stamp.read_text().strip() == value
    except OSError:
        return False


def write_stamp(stamp: Path, value: str) -> None:
    fresh = stamp.with_name(stamp.name + ".new")
    fresh.write_text(value + "\n")
    fresh.replace(stamp)


def warn(text: str) -> None:
    print(f"  warning: {text}", file=sys.stderr, flush=True)
