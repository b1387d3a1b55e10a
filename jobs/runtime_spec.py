"""What is run for a job: processes on one machine, an indexed Job on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters import registry
from clusters.options import options_of
from images.services import pinned
from jobs import code
from queues.choices import Purpose
from runtime import training
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
        "framework": row.framework,
        "groups": training.groups(row.framework, row.replicas, row.parameter_servers),
        "once": True,
        "retry": RetryPolicy(attempts=row.retries + 1, backoff_s=BACKOFF_S),
        "secret_env": lambda: {**keys.secret_env(), **code.secrets(row)},
        "stop_grace_s": STOP_GRACE_S,
    }
    if not cluster.runs_images:
        if not row.command:
            raise InvalidSpec(_("This machine has no images: a job needs a command here."))
        # its program takes what an image would give to its entry point, too
        command = code.with_code(row, (*row.command, *row.args))
        if row.framework == training.MPI:  # one process starts all slots, and has the room of all
            slots = row.replicas * max(1, row.gpus)
            command = _on_each_slot(row, "--host", f"localhost:{slots}")
            common["groups"] = training.groups(row.framework, 1)
            common["resources"] = row.resources.times(row.replicas)
        env = {**keys.env, **row.env, **code.environment(row, "")}
        return WorkloadSpec(**common, command=command, env=env, verbatim=True)
    if not row.image:
        raise InvalidSpec(_("A job on a cluster needs an image."))
    keys = pod_keys(keys)
    operator = training.operator(row.framework, row.replicas, cluster.operators)
    command, args = code.with_code(row, row.command), tuple(row.args)
    if operator == "mpi":
        command, args = _on_each_slot(row), ()
    elif row.framework == training.TENSORFLOW and not operator:  # one template: all are workers
        common["groups"] = (PodGroup(training.WORKER, row.replicas, meets=True),)
    return WorkloadSpec(
        **common,
        **pod_fields(row, cluster, work_class=row.KIND, image=row.image, purpose=Purpose.TRAIN),
        image=pinned(row.image, row.image_digest),
        command=command,
        args=args,
        env={**keys.env, **row.env, **code.environment(row, options_of(cluster.options).hub_url)},
        operator=operator,
    )


def _on_each_slot(row: Job, *options: str) -> tuple[str, ...]:
    """Return what MPI's launcher runs. Each slot has the code; who starts the slots has it else."""
    words, slots = (*row.command, *row.args), row.replicas * max(1, row.gpus)
    if training.starts_others(words):
        return code.with_code(row, words)
    return training.mpirun(code.with_code(row, words), slots, *options)
