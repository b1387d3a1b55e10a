"""Every write to work of any kind. Split by subject; this is the door."""

from work.services.edit import image_renew, workload_edit
from work.services.ending import workload_delete, workload_stop, workloads_stop_for
from work.services.launch import workload_create, workload_start
from work.services.limits import limits_enforce
from work.services.manifest import manifest_apply, manifest_of, manifest_plan
from work.services.parking import park, workload_park, workload_regain, workload_start_plain
from work.services.plan import Plan, QuotaEffect, workload_plan
from work.services.sharing import workload_share, workload_unshare
from work.services.time_limit import extension_left, workload_extend

__all__ = [
    "Plan",
    "QuotaEffect",
    "extension_left",
    "image_renew",
    "limits_enforce",
    "manifest_apply",
    "manifest_of",
    "manifest_plan",
    "park",
    "workload_create",
    "workload_delete",
    "workload_edit",
    "workload_extend",
    "workload_park",
    "workload_plan",
    "workload_regain",
    "workload_share",
    "workload_start",
    "workload_start_plain",
    "workload_stop",
    "workload_unshare",
    "workloads_stop_for",
]
