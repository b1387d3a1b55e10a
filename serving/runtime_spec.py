"""What is run for an endpoint: a server with a port, and a probe that says when it is ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters import registry
from clusters.options import options_of
from images.services import pinned
from queues.choices import Purpose
from runtime import training
from runtime.pods import VOLUMES
from runtime.protocol import InvalidSpec
from runtime.spec import Probe, RetryPolicy, Serve, WorkloadSpec
from serving.runtimes import CUSTOM, Runtime, runtime_of
from volumes.backing import mount_of
from work.runtime_spec import common_fields, keys_of, pod_fields, pod_keys

if TYPE_CHECKING:
    from clusters.options import ClusterOptions
    from serving.models import Endpoint, ModelVersion

STOP_GRACE_S = 30.0  # to answer what it has begun
# Only a shell knows where this machine shows its volumes. The rest of the words follows.
_HERE = 'folder="$BERTH_VOLUMES/$1"; shift; exec "$@" --model-dir "$folder" --port "$PORT"'
NO_USE = (65, 66, 69)  # codes of the model server: the same files are refused again
_PROGRAM = ("python3", "-I", "-m", "serving.programs.model_server")


def workload_spec(row: Endpoint) -> WorkloadSpec:
    """Return what this launch runs; sizes are those of each replica."""
    cluster, runtime = registry.row_for(row.cluster_key), runtime_of(row)
    keys = keys_of(row)
    common: dict[str, Any] = common_fields(row, keys)
    seen = {mount.volume_uid for mount in common["mounts"]}
    common["mounts"] += tuple(
        mount_of(home, read_only=True) for home in row.homes if str(home.uid) not in seen
    )
    common |= {
        "serve": Serve(row.replicas),
        "secret_env": keys.secret_env,
        "stop_grace_s": STOP_GRACE_S,
        "probe": Probe(path=row.health if runtime.word == CUSTOM else runtime.health),
    }
    if not cluster.runs_images:
        env = {**keys.env, **row.env, "PORT": "{port}"}
        if runtime.word == CUSTOM:
            if not (words := (*row.command, *row.args)):
                raise InvalidSpec(_("On this machine a server of your own needs a command."))
            return WorkloadSpec(**common, command=words, env=env)
        words = ("sh", "-c", _HERE, "sh", _place(row.version), *_PROGRAM, *_model_words(row))
        return WorkloadSpec(**common, command=words, env=env, verbatim=True)
    image, command, args = _of_image(row, runtime, options_of(cluster.options))
    keys = pod_keys(keys)
    if command == _PROGRAM:
        common |= {"sealed": True, "retry": RetryPolicy(never=NO_USE)}
    return WorkloadSpec(
        **common,
        **pod_fields(row, cluster, work_class=row.KIND, image=image, purpose=Purpose.INFERENCE),
        image=pinned(row.image, row.image_digest) if row.image else image,
        operator=training.KSERVE,
        port=row.port,
        command=command,
        args=args,
        env={**keys.env, **row.env, "PORT": str(row.port)},
    )


def _of_image(
    row: Endpoint, runtime: Runtime, options: ClusterOptions
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return image, command and arguments of a pod."""
    if runtime.word == CUSTOM:
        if not row.image:
            raise InvalidSpec(_("A server of your own on a cluster needs an image."))
        return row.image, tuple(row.command), tuple(row.args)
    image = row.image or options.serving_images.get(runtime.image, "")
    if not image:
        said = _("This cluster names no image for %(name)s; an operator can (serving_images).")
        raise InvalidSpec(said % {"name": runtime.label})
    folder, port = f"{VOLUMES}/{_place(row.version)}", str(row.port)
    if runtime.word == "triton":
        triton = ("tritonserver", f"--model-repository={folder}", f"--http-port={port}")
        return image, triton, tuple(row.args)
    if runtime.word == "vllm":
        vllm = ("python3", "-m", "vllm.entrypoints.openai.api_server")
        named = ["--model", folder, "--served-model-name", _name(row), "--port", port]
        if row.gpus > 1:  # its weights lie on all of them
            named += ["--tensor-parallel-size", str(row.gpus)]
        return image, vllm, (*named, *row.args)
    words = ("--model-dir", folder, "--port", port)
    return image, _PROGRAM, (*_model_words(row), *words)


def _place(version: ModelVersion | None) -> str:
    """Return where its files are, below the folder of volumes."""
    if version is None or version.volume is None:
        raise InvalidSpec(_("The version has no files: it needs a server of its own."))
    return f"{version.volume.mount_name}/{version.folder}".rstrip("/")


def _name(row: Endpoint) -> str:
    """Return what callers call it: the model, for a canary that of what it stands beside."""
    return (row.model or row.name).partition("/")[0]


def _model_words(row: Endpoint) -> tuple[str, ...]:
    version = row.version
    framework = "" if version is None else version.framework
    named = () if version is None else ("--version", version.name)
    return ("--framework", framework, "--name", _name(row), *named)
