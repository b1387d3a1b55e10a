"""What is run for a job: processes on one machine, an indexed Job on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters import registry
from clusters.options import options_of
from images.services import pinned
from jobs import code
from queues.choices import Purpose
from runtime.protocol import InvalidSpec, PodGroup, RetryPolicy, WorkloadSpec
from work.runtime_spec import common_fields, keys_of, pod_fields, pod_keys

if TYPE_CHECKING:
    from jobs.models import Job

STOP_GRACE_S = 30.0  # to write a checkpoint
BACKOFF_S = 10.0


def workload_spec(row: Job) -> WorkloadSpec:
    """Return what this launch runs. ``resources`` are those of each replica."""
    cluster = registry.row_for(row.cluster_key)
    keys = keys_of(row)
    common: dict[str, Any] = {
        **common_fields(row, keys),
        "groups": (PodGroup("main", row.replicas),),
        "once": True,
        "retry": RetryPolicy(attempts=row.retries + 1, backoff_s=BACKOFF_S),
        "secret_env": lambda: {**keys.secret_env(), **code.secrets(row)},
        "stop_grace_s": STOP_GRACE_S,
        "checkpoints": f"{row.checkpoints}/{row.short_id}" if row.checkpoints else "",
    }
    if not cluster.runs_images:
        if not row.command:
            raise InvalidSpec(_("This machine has no images: a job needs a command here."))
        # its program takes what an image would give to its entry point, too
        command = code.with_code(row, (*row.command, *row.args))
        env = {**keys.env, **row.env, **code.environment(row, "")}
        return WorkloadSpec(**common, command=command, env=env, verbatim=True)
    if not row.image:
        raise InvalidSpec(_("A job on a cluster needs an image."))
    keys = pod_keys(keys)
    return WorkloadSpec(
        **common,
        **pod_fields(row, cluster, work_class=row.KIND, image=row.image, purpose=Purpose.TRAIN),
        image=pinned(row.image, row.image_digest),
        command=code.with_code(row, row.command),
        args=tuple(row.args),
        env={**keys.env, **row.env, **code.environment(row, options_of(cluster.options).hub_url)},
    )
