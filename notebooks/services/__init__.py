"""Every write to presets and workspaces. Split by subject; this is the door."""

from notebooks.services.base import may_end
from notebooks.services.cluster_suggestion import likely_cluster
from notebooks.services.image_digest import digest_edited, image_named
from notebooks.services.launch import (
    default_preset,
    require_startable,
    workspace_launch,
    workspace_resume,
)
from notebooks.services.lifecycle import (
    extension_left,
    workspace_delete,
    workspace_edit,
    workspace_extend,
    workspace_stop,
    workspaces_request_delete,
    workspaces_stop_for,
)
from notebooks.services.limits import limits_enforce
from notebooks.services.manifest import (
    manifest_of,
    manifest_parse,
    manifest_plan,
    manifest_wrap,
    said,
    workspace_apply,
)
from notebooks.services.plan import Plan, QuotaEffect, workspace_plan
from notebooks.services.presets import (
    PresetFields,
    ensure_default_presets,
    ensure_gpu_preset,
    preset_create,
    preset_delete,
    preset_update,
)
from notebooks.services.renewing import image_renew
from notebooks.services.resolve import environments_of, spec_of
from notebooks.services.sharing import shares_revoke_for, workspace_share, workspace_unshare
from notebooks.spec import Spec, Wanted
from work.services.attachments import warning_of_full

__all__ = [
    "Plan",
    "PresetFields",
    "QuotaEffect",
    "Spec",
    "Wanted",
    "default_preset",
    "digest_edited",
    "ensure_default_presets",
    "ensure_gpu_preset",
    "environments_of",
    "extension_left",
    "image_named",
    "image_renew",
    "likely_cluster",
    "limits_enforce",
    "manifest_of",
    "manifest_parse",
    "manifest_plan",
    "manifest_wrap",
    "may_end",
    "preset_create",
    "preset_delete",
    "preset_update",
    "require_startable",
    "said",
    "shares_revoke_for",
    "spec_of",
    "warning_of_full",
    "workspace_apply",
    "workspace_delete",
    "workspace_edit",
    "workspace_extend",
    "workspace_launch",
    "workspace_plan",
    "workspace_resume",
    "workspace_share",
    "workspace_stop",
    "workspace_unshare",
    "workspaces_request_delete",
    "workspaces_stop_for",
]
