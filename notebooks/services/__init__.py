"""Writes that only presets and workspaces have; the others are ``work.services``."""

from notebooks.services.presets import (
    PresetFields,
    ensure_default_presets,
    ensure_gpu_preset,
    preset_create,
    preset_delete,
    preset_update,
)

__all__ = [
    "PresetFields",
    "ensure_default_presets",
    "ensure_gpu_preset",
    "preset_create",
    "preset_delete",
    "preset_update",
]
