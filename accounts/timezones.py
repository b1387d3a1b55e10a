"""Time zones a person may choose."""

import zoneinfo
from functools import cache

_AREAS = frozenset(
    {"Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic"}
    | {"Australia", "Europe", "Indian", "Pacific"}
)


@cache
def names() -> tuple[str, ...]:
    """Return the canonical names: Area/City and UTC, without legacy aliases."""
    every = zoneinfo.available_timezones()
    return ("UTC", *sorted(n for n in every if n.split("/", 1)[0] in _AREAS and "/" in n))


def is_timezone(name: str) -> bool:
    return name in names()
