"""What is run for a job: processes on one machine, an indexed Job on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.translation import gettext as _

from clusters import registry
from clusters.options import options_of
from common.hooks import Hook
from hubapi.services import derive
from images.services import pinned
from jobs import code, outputs
from jobs.kind import operator_of
from jobs.models import Job
from jobs.programs import runner
from queues.choices import Purpose
from runtime import training
from runtime.protocol import InvalidSpec
from runtime.spec import PodGroup, RetryPolicy, WorkloadSpec
from volumes.backing import mount_of
from work.runtime_spec import common_fields, keys_of, pod_fields, pod_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusters.options import ClusterOptions

STOP_GRACE_S = 30.0  # to write a checkpoint
BACKOFF_S = 10.0
# Whether its program tells an app above what it found (``jobs.hub.told``).
reports_of: Hook[[Job], bool] = Hook()
PURPOSE = "job-report"  # of the derived token
RUNTIME_DIR = "/tmp/berth-jupyter"  # noqa: S108 - of the pod
# What apps above give to the launch of a job of theirs: secret variables.
secrets_with: Hook[[Job], Mapping[str, str]] = Hook()
_IN_FOLDER = 'cd -- "$HOME/$0" || exit 66; exec "$@"'
# A smoke run of several replicas is one that finds itself alone.
_ALONE = {
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
}


def workload_spec(row: Job) -> WorkloadSpec:
    """Return what this launch runs. ``resources`` are those of each replica."""
    cluster = registry.row_for(row.cluster_key)
    options = options_of(cluster.options) if cluster.runs_images else None
    if row.made_in and row.home is None:
        raise InvalidSpec(_("The home of the workspace that it was made in is gone."))
    keys = keys_of(row)
    common: dict[str, Any] = common_fields(row, keys)
    if row.home is not None:
        common["mounts"] = (mount_of(row.home, role="home"), *common["mounts"])
    reports = bool(row.smoke_of or row.is_notebook) or any(reports_of(row))
    own = _own_environment(row, options, reports=reports)
    common |= {
        "framework": row.framework,
        "groups": row.groups,
        "once": True,
        "tells": row.smoke_of is None,
        "retry": RetryPolicy(attempts=row.retries + 1, backoff_s=BACKOFF_S),
        "secret_env": lambda: {
            **keys.secret_env(),
            **code.secrets(row),
            **_secrets(row, reports=reports),
        },
        "stop_grace_s": STOP_GRACE_S,
        "checkpoints": f"{row.checkpoints}/{row.short_id}" if row.checkpoints else "",
        "checkpoints_since": row.checkpoints_since_ns,
        "output": outputs.written_to(row),
    }
    words = _words(row, options)
    if options is None:
        if not words:
            raise InvalidSpec(_("On this machine a job needs a command or a file."))
        if row.framework == training.MPI:  # one process starts all slots, and has the room of all
            common["groups"] = training.groups(row.framework, 1)
            common["resources"] = row.resources.times(row.replicas)
        packages = str(row.made_in_uid or "")
        env = {**keys.env, **row.env, **own}
        return WorkloadSpec(**common, command=words, env=env, verbatim=True, packages_of=packages)
    if not row.image:
        raise InvalidSpec(_("A job on a cluster needs an image."))
    keys = pod_keys(keys)
    is_plain = words == (*row.command, *row.args) or not words
    operator = operator_of(cluster, row)
    if row.framework == training.TENSORFLOW and not operator:  # one template: all are workers
        common["groups"] = (PodGroup(training.WORKER, row.replicas, meets=True),)
    return WorkloadSpec(
        **common,
        **pod_fields(row, cluster, work_class=row.KIND, image=row.image, purpose=Purpose.TRAIN),
        image=pinned(row.image, row.image_digest),
        command=tuple(row.command) if is_plain else words,
        args=tuple(row.args) if is_plain else (),
        env={**keys.env, **row.env, **own},
        links_volumes=row.home is not None,  # paths are as in the workspace
        operator=operator,
        code=code.brought(row, options),
    )


def _words(row: Job, options: ClusterOptions | None) -> tuple[str, ...]:
    """Return the words of what is run; (): the image's own program, with its arguments."""
    if row.is_notebook:
        words: tuple[str, ...] = ("python3", "-c", runner(), "notebook", row.script)
    elif row.script:
        words = ("python3", row.script, *row.args)
    elif row.command:
        # its program takes what an image would give to its entry point, too
        words = (*row.command, *row.args)
    else:
        return ()
    if row.smoke_of is not None:
        wants_gpus = Job.objects.filter(uid=row.smoke_of, gpus__gt=0).exists()
        seconds = str(settings.BERTH_SMOKE_SECONDS)
        words = ("python3", "-c", runner(), "smoke", seconds, str(int(wants_gpus)), "--", *words)
    if row.framework == training.MPI and not training.starts_others(words):
        slots = row.replicas * max(1, row.gpus)
        hosts = ("--host", f"localhost:{slots}") if options is None else ()
        words = training.mpirun(code.with_code(row, words), slots, *hosts)  # each slot has the code
    elif code.is_brought(row, options):
        return words  # it begins there
    else:
        words = code.with_code(row, words)
    if row.home is not None:
        words = ("sh", "-c", _IN_FOLDER, row.workdir or ".", *words)
    return words


def _own_environment(row: Job, options: ClusterOptions | None, *, reports: bool) -> dict[str, str]:
    found = code.environment(row, options)
    if reports:
        base = (options.hub_url if options else "") or settings.BERTH_INTERNAL_URL
        found["BERTH_REPORT_URL"] = f"{base.rstrip('/')}/hub/api/berth/jobs/{row.uid}/report"
    if row.smoke_of is not None:
        found |= {"BERTH_SMOKE_RUN": "1", **_ALONE}
    if options is not None and row.home is not None:
        found["JUPYTER_RUNTIME_DIR"] = RUNTIME_DIR  # never in a home that several pods share
    return found


def _secrets(row: Job, *, reports: bool) -> dict[str, str]:
    found = {"BERTH_REPORT_TOKEN": derive(PURPOSE, row.uid, row.launch)} if reports else {}
    for more in secrets_with(row):
        found |= more
    return found
