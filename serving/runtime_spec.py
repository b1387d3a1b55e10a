"""What is run for an endpoint: a server with a port, and a probe that says when it is ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters import registry
from images.services import pinned
from queues.choices import Purpose
from runtime.protocol import InvalidSpec, Probe, WorkloadSpec
from work.runtime_spec import common_fields, keys_of, pod_fields, pod_keys

if TYPE_CHECKING:
    from serving.models import Endpoint

STOP_GRACE_S = 30.0  # to answer what it has begun


def workload_spec(row: Endpoint) -> WorkloadSpec:
    """Return what this launch runs."""
    cluster = registry.row_for(row.cluster_key)
    keys = keys_of(row)
    common: dict[str, Any] = common_fields(row, keys)
    common |= {
        "secret_env": keys.secret_env,
        "stop_grace_s": STOP_GRACE_S,
        "probe": Probe(path=row.health),
    }
    words = (*row.command, *row.args)
    if not cluster.runs_images:
        if not words:
            raise InvalidSpec(_("On this machine a server of your own needs a command."))
        env = {**keys.env, **row.env, "PORT": "{port}"}
        return WorkloadSpec(**common, command=words, env=env)
    if not row.image:
        raise InvalidSpec(_("A server of your own on a cluster needs an image."))
    keys = pod_keys(keys)
    return WorkloadSpec(
        **common,
        **pod_fields(row, cluster, work_class=row.KIND, image=row.image, purpose=Purpose.INFERENCE),
        image=pinned(row.image, row.image_digest),
        port=row.port,
        command=tuple(row.command),
        args=tuple(row.args),
        env={**keys.env, **row.env, "PORT": str(row.port)},
    )
