"""Workspaces through the services of work: what tests say of one in a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from work import kinds, services

NOTHING: Mapping[str, Any] = {}


def _new(principal: Any, project: Any, preset: Any, said: Mapping[str, Any]) -> dict[str, Any]:
    told = {**said, **({} if preset is None else {"preset": preset.slug})}
    kind = kinds.kind_of("workspace")
    return {"principal": principal, "project": project, "kind": kind, "said": told}


def workspace_launch(
    *,
    principal: Any,
    project: Any,
    preset: Any = None,
    said: Mapping[str, Any] = NOTHING,
    **how: Any,
) -> Any:
    return services.workload_create(**_new(principal, project, preset, said), **how)


def workspace_plan(
    *, principal: Any, project: Any, preset: Any = None, said: Mapping[str, Any] = NOTHING
) -> Any:
    return services.workload_plan(**_new(principal, project, preset, said))


def workspace_resume(*, principal: Any, workspace: Any) -> Any:
    return services.workload_start(principal=principal, row=workspace)


def workspace_stop(*, principal: Any, workspace: Any, **how: Any) -> Any:
    return services.workload_stop(principal=principal, row=workspace, **how)


def workspace_edit(*, principal: Any, workspace: Any, said: Mapping[str, Any]) -> Any:
    return services.workload_edit(principal=principal, row=workspace, said=said)


def workspace_delete(*, principal: Any, workspace: Any, **how: Any) -> Any:
    return services.workload_delete(principal=principal, row=workspace, **how)
