"""What is run for a workspace: a process on one machine, a pod on a cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext, override

from clusters.options import ClusterOptions, options_of
from hubapi import services as hub
from notebooks.hub import info_of, port_info_of
from notebooks.kind import WORKSPACE, sidecar_port
from notebooks.programs import tensorboard
from notebooks.where import image_of
from queues.choices import Purpose
from runtime import lab_extension
from runtime.pods import HOME, PORT
from runtime.spec import Probe, Sidecar, WorkloadSpec
from volumes.backing import mount_of
from work.attached import volumes_seen_by
from work.runtime_spec import common_fields, keys_of, pod_fields, pod_keys

if TYPE_CHECKING:
    from clusters.models import Cluster
    from credentials.embedding import Embedded
    from hubapi.registry import WorkloadInfo
    from hubapi.services import LaunchCredentials
    from notebooks.models import Workspace

PATIENCE_S = 20  # how long a visitor waits for the port to answer
EVERYWHERE = "0.0.0.0"  # noqa: S104 - inside a pod, behind its NetworkPolicy
RUNTIME_DIR = "/tmp/berth-jupyter"  # noqa: S108 - of the pod; cookies and sockets never at home
LAB_EXTENSIONS = "/tmp/berth-lab"  # noqa: S108 - of the pod

# Signs people in before a port. Two things the package has no option for are put right before it
# starts. Its answers about a token are believed as briefly as a notebook's; and who asks for a
# WebSocket must be signed in, too: jupyter-server-proxy looks at that in ``prepare``, which its
# standalone form leaves empty, so that it lets anybody in who asks for an upgrade.
_GUARD = """
from jupyterhub.services.auth import HubOAuth
from jupyter_server_proxy.standalone import app, main
from tornado.web import HTTPError

def known(self):
    if "Upgrade" in self.request.headers and not self.current_user:
        raise HTTPError(403)

def made(*given, make=app.make_standalone_proxy):
    handler, options = make(*given)
    handler.prepare = known
    return handler, options

HubOAuth.instance(cache_max_age={age})
app.make_standalone_proxy = made
main()
"""
_LISTENS = Probe(path="")  # a TCP connection: every page of it wants a signed-in person


def process_spec(row: Workspace) -> WorkloadSpec:
    keys = keys_of(row)
    env, secret_env = hub.launch_environment(info_of(row), _client(row))
    lab = ("jupyterhub-singleuser", *hub.server_arguments())
    return WorkloadSpec(
        **_common(row, keys),
        command=_tensorboard(row) if row.is_tensorboard else lab,
        verbatim=row.is_tensorboard,
        # ours last: nobody's own variable replaces them
        env={**keys.env, **row.env, **env},
        secret_env=lambda: {**keys.secret_env(), **secret_env},
        probe=Probe(path=hub.readiness_path(row.short_id)),
    )


def _tensorboard(row: Workspace) -> tuple[str, ...]:
    """Return the words that show its folders; they are told in its owner's language."""
    names = {one.volume.name: one.volume.mount_name for one in volumes_seen_by(row)}
    folders = []
    for folder in row.logdir:
        volume, _slash, below = folder.partition("/")
        folders.append(f"{names.get(volume, volume)}/{below}".rstrip("/"))
    with override(row.owner.reads_in):
        said = (
            gettext("Nothing to show yet"),
            gettext(
                "No event file was written to %(folders)s. This page looks again every few seconds."
            )
            % {"folders": ", ".join(row.logdir)},
        )
    return ("python3", "-c", tensorboard(), *said, *folders)


def pod_spec(row: Workspace, cluster: Cluster) -> WorkloadSpec:
    options = options_of(cluster.options)
    keys = pod_keys(keys_of(row))
    common = {
        **_common(row, keys),
        **pod_fields(
            row, cluster, work_class=WORKSPACE.class_of(row), image=row.image, purpose=Purpose.BUILD
        ),
        "image": image_of(row, options),
    }
    make = _container if row.is_container else _server
    return make(row, options, common, keys)


def _common(row: Workspace, keys: Embedded) -> dict[str, Any]:
    if row.home.owner_id == row.owner_id:
        row.home.owner = row.owner  # known already
    found = common_fields(row, keys)
    if row.is_tensorboard:
        return found  # it reads the runs, and nothing else of its owner's
    return {**found, "mounts": (mount_of(row.home, role="home"), *found["mounts"])}


def _client(row: Workspace) -> LaunchCredentials:
    return hub.client_ensure(
        uid=row.uid,
        short_id=row.short_id,
        owner=row.owner,
        project=row.project,
        launch=row.launch,
    )


def _server(
    row: Workspace, options: ClusterOptions, common: dict[str, Any], keys: Embedded
) -> WorkloadSpec:
    env, secret_env = hub.launch_environment(
        info_of(row), _client(row), bind=EVERYWHERE, port=str(PORT), hub_url=options.hub_url
    )
    common |= {"port": PORT, "probe": Probe(path=hub.readiness_path(row.short_id))}
    if row.is_tensorboard:
        return WorkloadSpec(
            **common,
            command=_tensorboard(row),
            env={**keys.env, **row.env, **env},
            secret_env=lambda: {**keys.secret_env(), **secret_env},
        )
    # What is open in this one. Nothing but the home outlives its pod, and several share that.
    layout = {"JUPYTERLAB_WORKSPACES_DIR": f"{HOME}/.jupyter/lab/workspaces/{row.short_id}"}
    extension = lab_extension.files()
    beside = {f"lab-{re.sub('[^a-z.]+', '-', name)}": name for name in extension}
    files = {flat: extension[name] for flat, name in beside.items()}
    common |= {"secret_files": lambda: {**keys.secret_files(), **files}}
    return WorkloadSpec(
        **common,
        command=(
            *("jupyterhub-singleuser", *hub.server_arguments(root_dir=HOME)),
            f"--LabApp.extra_labextensions_path={LAB_EXTENSIONS}",
        ),
        unpacked={
            flat: f"{LAB_EXTENSIONS}/{lab_extension.NAME}/{name}" for flat, name in beside.items()
        },
        env={**layout, **keys.env, **row.env, **env, "JUPYTER_RUNTIME_DIR": RUNTIME_DIR},
        secret_env=lambda: {**keys.secret_env(), **secret_env},
        links_volumes=True,  # its file browser shows nothing but the home
    )


def _container(
    row: Workspace, options: ClusterOptions, common: dict[str, Any], keys: Embedded
) -> WorkloadSpec:
    """Run what the person says; it learns nothing of the Hub: its helpers sign people in."""
    info = info_of(row)
    return WorkloadSpec(
        **common,
        command=tuple(row.command),
        args=tuple(row.args),
        env={**keys.env, **row.env},
        secret_env=keys.secret_env,
        ports=tuple(port["port"] for port in row.ports),
        sidecars=tuple(_guard(row, info, options, port["port"]) for port in row.web_ports),
    )


def _guard(row: Workspace, info: WorkloadInfo, options: ClusterOptions, port: int) -> Sidecar:
    credentials = hub.port_client_ensure(
        uid=row.uid,
        short_id=row.short_id,
        port=port,
        owner=row.owner,
        project=row.project,
        launch=row.launch,
    )
    listens = sidecar_port(row.ports, port)
    env, secret_env = hub.launch_environment(
        port_info_of(info, port),
        credentials,
        bind=EVERYWHERE,
        port=str(listens),
        hub_url=options.hub_url,
    )
    return Sidecar(
        name=f"port-{port}",
        image=options.guard_image,
        # It would report use at every interval, used or not: unknown is better than wrong.
        command=(
            *("python3", "-c", _GUARD.format(age=hub.CACHE_AGE_S)),
            *(f"--server-port={port}", "--activity-interval=0", f"--timeout={PATIENCE_S}"),
            # Without a program to start it offers no sign-in; this one only waits.
            *("--", "sleep", "infinity"),
        ),
        port=listens,
        env={**env, "HOME": "/tmp"},  # noqa: S108 - of the pod
        secret_env=lambda: secret_env,
        probe=_LISTENS,
    )
