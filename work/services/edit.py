"""Changing what a workload is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from work.models import Workload


def workload_edit(*, principal: Principal, row: Workload, said: Mapping[str, Any]) -> Workload:
    """Change what ``said`` says otherwise."""
    raise NotImplementedError
