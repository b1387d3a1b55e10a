"""The folder at the top of every volume that is Berth's own: hidden, and nobody's target.

Uploads under way, deleted things, and what loads must remember lie in it.
"""

from __future__ import annotations

OWN = ".berth"


def is_own(name: str) -> bool:
    """Whether a name at the top of a volume is that folder: there are volumes that fold case."""
    return name.casefold() == OWN
