"""The ``berth`` command that does the same as a form: what differs from the preset, and no more."""

from __future__ import annotations

from shlex import join
from typing import TYPE_CHECKING, Any

from runtime.models import ONE_MACHINE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from notebooks.models import Preset, Workspace
    from work.services import Plan

_ANY = "any"  # kind of GPU
_FOLLOW_THE_IMAGE = ("command", "args", "ports")


def plan_command(
    plan: Plan, preset: Preset, project: str, credentials: Sequence[str], *, several: bool
) -> str:
    """Return the ``berth`` command that does the same; ``several``: there are clusters to choose.

    ``credentials``: those of the plan as they are named (``credentials_named``).

    As in the file beside it, values of the environment are in it: whoever sees it typed them.
    """
    row, words = plan.row, ["berth", "workspace", "launch", preset.slug]
    words += ["--project", project, "--name", plan.name]
    words += [*_size_words(row, preset), *_program_words(row, preset)]
    if row.cluster_key != preset.cluster_key and (several or row.cluster_key != ONE_MACHINE):
        words += ["--cluster", row.cluster_key]
    if row.time_limit_minutes != preset.time_limit_minutes:
        words += ["--time-limit", str(row.time_limit_minutes or 0)]
    words += _attached_words(plan, credentials)
    usual = preset.default_env
    for name, value in row.env.items():
        if name not in usual or usual[name] != value:
            words += ["--env", f"{name}={value}"]
    return join(words)


def _size_words(row: Workspace, preset: Preset) -> list[str]:
    words: list[str] = []
    if row.environment != preset.environment:
        words += ["--environment", row.environment]
    if row.cpu_milli != preset.cpu_milli:
        words += ["--cpu", f"{row.cpu_milli / 1000:g}"]
    if row.memory_mib != preset.memory_mib:
        words += ["--memory", str(row.memory_mib)]
    if row.gpus != preset.gpus:
        words += ["--gpus", str(row.gpus)]
    if row.gpus and row.gpu_flavor != preset.gpu_flavor:
        words += ["--gpu", row.gpu_flavor or _ANY]
    return words


def _program_words(row: Workspace, preset: Preset) -> list[str]:
    words: list[str] = []
    usual = _unsaid(row, preset)
    if row.variant != preset.kind:
        words += ["--kind", row.variant]
    if row.cluster_key == ONE_MACHINE:  # it runs JupyterLab from its own environments
        return words
    for name in ("image", "pool", "network"):
        value = getattr(row, name)
        if value != usual[name]:
            words += [f"--{name}", value]
    for name in ("command", "args"):
        said = list(getattr(row, name))
        if said != usual[name]:
            words += [f"--{name}", join(said)]
    if list(row.ports) != usual["ports"]:
        words += _port_words(row)
    if row.shm_mib != preset.shm_mib:
        words += ["--shm", f"{row.shm_mib}M"]
    return words


def _unsaid(row: Workspace, preset: Preset) -> Mapping[str, Any]:
    """Return what the program is before it is said: of another kind or image, not the preset's."""
    usual: dict[str, Any] = {"pool": preset.pool, "network": preset.network}
    same_kind = row.variant == preset.kind
    usual["image"] = preset.image if same_kind else ""
    same = same_kind and row.image in {"", usual["image"]}
    for name in _FOLLOW_THE_IMAGE:
        usual[name] = list(getattr(preset, name)) if same else []
    return usual


def _port_words(row: Workspace) -> list[str]:
    if not row.ports:
        return ["--no-ports"]
    words: list[str] = []
    for port in row.ports:
        said = [str(port["port"]), port["name"], *([] if port["web"] else ["private"])]
        words += ["--port", ":".join(said)]
    return words


def _attached_words(plan: Plan, credentials: Sequence[str]) -> list[str]:
    words: list[str] = []
    for seen in plan.attached.volumes:
        words += ["--volume", f"{seen.volume.name}{':ro' if seen.read_only else ''}"]
    if not plan.attached.volumes and not plan.attached.with_shared:
        words += ["--no-volumes"]
    for name in credentials:
        words += ["--credential", name]
    for load in plan.attached.needs:
        words += ["--needs", load.name]
    return words
