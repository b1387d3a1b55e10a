"""What the manager of this machine has for those who ask by a file, and how far it is.

Standard library only: the manager knows nothing of Django.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def wanted_file(var: Path, name: str) -> Path:
    """It is there while the process ``name`` is needed; its time says until when it was."""
    return var / "run" / f"{name}.wanted"


@dataclass(frozen=True)
class Making:
    """How far an environment is. ``problem``: a word for why the last try came to nothing."""

    mib: int = 0
    problem: str = ""


def making_file(environments: Path, name: str) -> Path:
    return environments / f".{name}.making"


def tell(file: Path, making: Making) -> None:
    """Write it all or not at all. Root may be who does: a link that lies there is not followed."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(fresh, flags, 0o644), "w") as opened:
        os.fchmod(opened.fileno(), 0o644)
        opened.write(json.dumps(asdict(making)))
    fresh.replace(file)


def told(file: Path) -> Making:
    """Read it; nothing made where nobody said anything."""
    try:
        said = json.loads(file.read_text())
        return Making(int(said["mib"]), str(said["problem"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Making()
