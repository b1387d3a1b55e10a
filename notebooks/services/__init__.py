"""Writes that only presets and workspaces have; the others are ``work.services``."""

from notebooks.services.cluster_suggestion import likely_cluster
from notebooks.services.lifecycle import extension_left, image_renew, workspace_extend
from notebooks.services.limits import limits_enforce
from notebooks.services.presets import (
    PresetFields,
    ensure_default_presets,
    ensure_gpu_preset,
    preset_create,
    preset_delete,
    preset_update,
)
from notebooks.services.sharing import shares_revoke_for, workspace_share, workspace_unshare

__all__ = [
    "PresetFields",
    "ensure_default_presets",
    "ensure_gpu_preset",
    "extension_left",
    "image_renew",
    "likely_cluster",
    "limits_enforce",
    "preset_create",
    "preset_delete",
    "preset_update",
    "shares_revoke_for",
    "workspace_extend",
    "workspace_share",
    "workspace_unshare",
]
