"""How a run ended, from everything that may be known of it. Pure.

The exit code decides; the run's own last words say why. Either may be missing: the last report
may never have come, and the exit code is lost when a machine is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loaders.choices import Result, StopReason
from runtime.reasons import Reason

MAX_MESSAGE = 500
_OF_EXIT = {0: Result.DONE, 3: Result.PARTIAL, 4: Result.FAILED, 5: Result.FAILED}
_CODE_OF_EXIT = {0: "done", 3: "partial", 4: "internal", 5: "stopped"}
# What the engine says when a program merely ended: the exit code knows better.
_PLAIN = frozenset({Reason.EXIT, Reason.FINISHED, Reason.NONE})


@dataclass(frozen=True)
class Ended:
    result: Result
    code: str
    message: str = ""
    uploads: int = 0  # that the store still holds, of files that are gone in the volume


def ended(
    *,
    stopped_for: str,
    exit_code: int | None,
    reason: str,
    message: str,
    final: Mapping[str, Any] | None,
) -> Ended:
    """Return the result. ``stopped_for``: the StopReason when it was asked to stop, else "".

    ``message`` is what the driver saw of its last words, ``final`` what its last report said.
    """
    words = _words(final) or _last_words(message)
    if final is not None and exit_code not in _OF_EXIT:
        exit_code = _number(final.get("exit"))  # it told how it ended; only the code is lost
    if stopped_for:
        return _stopped(stopped_for, exit_code, words)
    if exit_code in _OF_EXIT and (reason in _PLAIN or exit_code == 0 or final is not None):
        assert exit_code is not None  # noqa: S101 - it is in the table
        return _by_exit(exit_code, words)
    return Ended(Result.FAILED, reason or "internal", words.message if words else message)


@dataclass(frozen=True)
class _Words:
    code: str
    message: str
    uploads: int = 0


def _by_exit(exit_code: int, words: _Words | None) -> Ended:
    result, code = _OF_EXIT[exit_code], _CODE_OF_EXIT[exit_code]
    if words is None:
        return Ended(result, code)
    # a code of the other family would contradict the result
    fits = exit_code == 4 or words.code == code  # noqa: PLR2004 - the contract's exit codes
    return Ended(result, words.code if fits and words.code else code, words.message, words.uploads)


def _stopped(stopped_for: str, exit_code: int | None, words: _Words | None) -> Ended:
    """It was asked to stop; it may have been done a moment before."""
    if exit_code in {0, 3}:
        return _by_exit(exit_code, words)
    results = {StopReason.PAUSED: Result.PAUSED, StopReason.CANCELLED: Result.CANCELLED}
    return Ended(results.get(StopReason(stopped_for), Result.STOPPED), stopped_for)


def _words(final: Mapping[str, Any] | None) -> _Words | None:
    if final is None:
        return None
    return _Words(
        str(final.get("code", "")),
        str(final.get("message", ""))[:MAX_MESSAGE],
        _number(final.get("uploads")) or 0,
    )


def _last_words(message: str) -> _Words | None:
    """Read what the program left where a cluster keeps the last words of a container."""
    if not message.strip():
        return None
    try:
        said = json.loads(message)
    except ValueError:
        return _Words("", message.strip()[:MAX_MESSAGE])
    return _words(said) if isinstance(said, dict) else None


def _number(value: Any) -> int | None:
    return value if type(value) is int else None
