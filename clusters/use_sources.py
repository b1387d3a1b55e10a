"""Where figures of use of each kind of device come from: what its operator says, else what is known
of its resource (``use_sources.toml``).
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from runtime.use_sources import UseSource, WrongFieldError, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusters.models import Flavor

log = structlog.get_logger(__name__)

_FILE = Path(__file__).with_name("use_sources.toml")


@cache
def _known() -> dict[str, dict[str, str]]:
    return tomllib.loads(_FILE.read_text("utf-8"))


def known_of(resource: str) -> dict[str, str]:
    """Return the fields of what is built in for a resource; {} for none."""
    for name, fields in _known().items():
        if name == resource or (name.endswith("*") and resource.startswith(name[:-1])):
            return dict(fields)
    return {}


def sources_of(flavors: Iterable[Flavor]) -> list[UseSource]:
    """Return each source once."""
    said: list[Mapping[str, Any]] = [f.use_source or known_of(f.resource) for f in flavors]
    found: dict[UseSource, None] = {}
    for fields in said:
        try:
            if fields:
                found[parse(fields)] = None
        except WrongFieldError as error:  # a row that an older version wrote
            log.warning("use_source.refused", field=error.field)
    return list(found)
