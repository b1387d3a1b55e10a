"""What a workspace says of itself: its fields, its rights, what only workspaces have."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from clusters.options import options_of
from common.clock import now
from common.errors import wrong
from notebooks import selectors
from notebooks.choices import WorkspaceKind
from notebooks.models import PRESET_KINDS, Preset, Workspace
from projects.access import Permission
from runtime.protocol import Desired
from volumes.services.base import volumes_hold
from volumes.services.create import SHARED, home_ensure, home_find
from work import fields as f
from work import standard_fields as s
from work.choices import StopReason
from work.kinds import Kind
from work.models import Ask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accounts.models import User
    from accounts.principal import Principal
    from clusters.models import Cluster
    from projects.models import Project
    from volumes.models import Volume
    from work.attached import Attached

# The n-th web port is guarded by a sidecar that listens on SIDECAR_BASE + n.
SIDECAR_BASE = 8888
MAX_WEB_PORTS = 8

VARIANT = f.Choice(
    name="kind",
    label=_("What runs"),
    column="variant",
    choices=WorkspaceKind.choices,
    edit=f.Edit.NEVER,
)
_CONTAINER = ("kind", WorkspaceKind.CONTAINER.value)
PORTS = f.Ports(
    name="ports",
    label=_("Ports"),
    form_help=_(
        "One on each line, with a name if you like. Each opens as a page behind the sign-in; "
        "write “private” after one that is none."
    ),
    most_web=MAX_WEB_PORTS,
    reserved=range(SIDECAR_BASE + 1, SIDECAR_BASE + 1 + MAX_WEB_PORTS),
    has_usual=True,
    option="port",
    quiet=True,
    images_only=True,
    only=_CONTAINER,
    folded=True,
)
LOGDIR = f.Words(
    name="logdir",
    label=_("Folders with runs"),
    help=_("VOLUME/FOLDER of what TensorBoard shows. Several are shown beside each other."),
    most=50,
    longest=1000,
    private=True,
    quiet=True,
    only=("kind", WorkspaceKind.TENSORBOARD.value),
)
COMMAND, ARGS = (replace(one, images_only=True, only=_CONTAINER) for one in (s.COMMAND, s.ARGS))
TIME_LIMIT = replace(s.TIME_LIMIT, form_help=_("0 means no limit, where the preset allows that."))
VOLUMES = replace(
    s.VOLUMES,
    form_help=_("Seen in the folder “volumes”, besides the home; in a container in “/volumes”."),
)
# What is not in this table cannot be asked for: there is no field for privileges, host paths,
# host networks, service accounts, node names or tolerations.
TABLE = f.Table(
    *(s.NAME, VARIANT, s.CLUSTER, s.ENVIRONMENT, s.IMAGE, COMMAND, ARGS, PORTS, LOGDIR),
    *(*s.SIZE, s.POOL, s.NETWORK, TIME_LIMIT, s.ENV, VOLUMES, s.CREDENTIALS, s.NEEDS),
)
# What a preset says of these. TensorBoard shows a run's folders, which nobody knows beforehand.
PRESET_TABLE = f.Table(
    *(
        replace(VARIANT, choices=PRESET_KINDS) if one is VARIANT else one
        for one in TABLE.but("logdir")
    )
)
_OF_AN_IMAGE = ("command", "args", "ports")
# Of TensorBoard, which reads files and shows curves, whatever the preset is for.
_OF_TENSORBOARD = {
    "cpu_milli": 1000,
    "memory_mib": 2048,
    "gpus": 0,
    "gpu_flavor": "",
    "shm_mib": 0,
    "idle_stop_minutes": 60,
}
_OF_A_PRESET = (
    *("cluster_key", "environment", "time_limit_minutes", "idle_stop_minutes"),
    *(column.name for column in Ask._meta.get_fields()),  # noqa: SLF001 - Django's own
)


def sidecar_port(ports: Sequence[Mapping[str, Any]], number: int) -> int:
    """Return where the sign-in of web port ``number`` listens."""
    web = [port["port"] for port in ports if port.get("web")]
    return SIDECAR_BASE + 1 + web.index(number)


def row_of_preset(
    preset: Preset, project: Project, owner: User, said: Mapping[str, Any] | None = None
) -> Workspace:
    """Return what a press on its card asks for, not saved.

    Of its program only what belongs to what is ``said`` to run: a container is meant where only
    that has what was said, and command and ports of the preset belong to the preset's image.
    """
    said = said or {}
    variant = said.get("kind") or preset.kind
    if "kind" not in said and any(said.get(name) for name in _OF_AN_IMAGE):
        variant = WorkspaceKind.CONTAINER.value
    row = Workspace(
        project=project,
        owner=owner,
        kind=Workspace.KIND,
        preset=preset if preset.pk else None,
        variant=variant,
        env=dict(preset.default_env),
        **{name: getattr(preset, name) for name in _OF_A_PRESET},
    )
    if row.is_tensorboard:
        for name, value in _OF_TENSORBOARD.items():
            setattr(row, name, value)
    if variant == preset.kind:
        row.image = preset.image
        if said.get("image") in {None, "", preset.image}:
            for name in _OF_AN_IMAGE:
                setattr(row, name, list(getattr(preset, name)))
    return row


def _defaults(principal: Principal, project: Project, said: Mapping[str, Any]) -> Workspace:
    """TensorBoard brings its size and what it runs, so a project without presets has it, too."""
    needs_none = said.get("kind") == WorkspaceKind.TENSORBOARD
    if needs_none and not (said.get("preset") or selectors.presets_for(project).exists()):
        return row_of_preset(Preset(), project, principal.user, said)
    preset = said.get("preset") or selectors.default_preset(project)
    if not isinstance(preset, Preset):  # a page has looked it up
        preset = selectors.preset_get(project, preset)
    return row_of_preset(preset, project, principal.user, said)


def _settle(row: Workspace, said: Mapping[str, Any]) -> None:
    if row.is_tensorboard and not row.logdir:
        raise wrong("logdir", gettext("Say which folders TensorBoard shows."))
    if row.logdir and not row.is_tensorboard:
        raise wrong("logdir", gettext("Only TensorBoard shows folders with runs."))
    if row.is_tensorboard and row.gpus:
        raise wrong("gpus", gettext("TensorBoard uses no GPU."))
    if "env" in said and row.launch == 0 and row.preset:
        # what a person adds goes on top of what the operator set
        row.env = {**row.preset.default_env, **row.env}
    if "time_limit_minutes" in said:
        s.TIME_LIMIT.clean(row.time_limit_minutes or 0, longest=_longest(row))
        _set_end(row)


def _longest(row: Workspace) -> int | None:
    return row.preset.max_time_limit_minutes if row.preset else None


def _set_end(row: Workspace) -> None:
    """Recompute when the time limit strikes; the caller saves."""
    end = None
    if row.ready_at and row.time_limit_minutes is not None and row.desired == Desired.RUNNING:
        end = row.ready_at + timedelta(minutes=row.time_limit_minutes + row.extended_minutes)
    if end != row.ends_at:
        row.ends_at, row.warned_at = end, None


def _check_place(cluster: Cluster, row: Workspace) -> None:
    """One machine runs JupyterLab from its own environments, and nothing else."""
    if not cluster.runs_images:
        if row.is_container:
            message = gettext(
                "A container needs a cluster: this machine runs JupyterLab from its own "
                "environments."
            )
            raise wrong("kind", message)
        return
    options = options_of(cluster.options)
    if row.is_container and not row.image:
        raise wrong("image", gettext("Name the image that runs."))
    if not row.is_container:
        if not (row.image or options.default_image):
            raise wrong("image", gettext("This cluster has no image of its own yet: name one."))
        for name in _OF_AN_IMAGE:
            if getattr(row, name):
                message = gettext("A notebook runs JupyterLab. Choose a container for this.")
                raise wrong(name, message)
    if row.web_ports and not options.guard_image:
        message = gettext(
            "On this cluster ports are not opened in a browser yet: its operator can change it."
        )
        raise wrong("ports", message)


def _look_at_attached(row: Workspace, attached: Attached) -> list[str]:
    """TensorBoard shows what lies in volumes that it is given."""
    names = [seen.volume.name for seen in attached.volumes]
    names += [SHARED] if attached.with_shared else []
    for folder in row.logdir:
        volume, _slash, below = folder.partition("/")
        if volume not in names:
            said = gettext("“%(volume)s” is none of its volumes: %(names)s.")
            raise wrong("logdir", said % {"volume": volume, "names": ", ".join(names) or "-"})
        if {"..", "."} & set(below.split("/")) or "\0" in below:
            raise wrong("logdir", gettext("A path below the volume, without “..”."))
    return []


def _homes(row: Workspace) -> tuple[Volume, ...]:
    home = home_find(project=row.project, owner=row.owner, cluster_key=row.cluster_key)
    if home is None:
        return ()
    row.home = home
    return (home,)


def _prepare(principal: Principal, row: Workspace) -> None:
    """Make the home, where there is none yet: it takes of the limits."""
    if row.home_id is None:
        there: dict[str, Any] = {"project": row.project, "cluster_key": row.cluster_key}
        row.home = home_ensure(**there, principal=principal, owner=row.owner)
        volumes_hold([row.home])


def _pin(row: Workspace, digest: str) -> None:
    row.image_digest, row.image_pinned_at = digest, now() if digest else None


def _asked_by(principal: Principal, row: Workspace) -> str:
    if row.owner_id == principal.user.pk:
        return StopReason.USER.value
    return (StopReason.OPERATOR if principal.is_operator else StopReason.MANAGER).value


WORKSPACE = Kind(
    word=Workspace.KIND,
    purpose="build",
    document="Workspace",
    model=Workspace,
    one=_("Workspace"),
    many=_("Workspaces"),
    icon="notebook",
    table=TABLE,
    create=Permission.WORKSPACE_CREATE,
    read=Permission.WORKSPACE_READ,
    manage=Permission.WORKSPACE_MANAGE,
    defaults=_defaults,
    beside={"preset": str},
    told_beside=lambda row: {"preset": row.preset.slug if row.preset else None},
    first_name=lambda row: row.get_variant_display() if row.is_tensorboard else row.preset.name,
    settle=_settle,
    check_place=_check_place,
    look_at_attached=_look_at_attached,
    # for pools and queues TensorBoard is one notebook more
    work_class=lambda row: WorkspaceKind.NOTEBOOK.value if row.is_tensorboard else row.variant,
    classes=dict(PRESET_KINDS),
    homes=_homes,
    prepare=_prepare,
    of_a_launch={"last_used_at": now},
    pin=_pin,
    related=("preset", "home"),
    asked=StopReason.USER.value,
    asked_by=_asked_by,
    counts_as="workspaces",
    stop_notice="workspace.stopped",
    ending_notice="workspace.ending",
    started="resumed",
    shared=True,
    renews=True,
    longest=_longest,
    taken=_("You already have a workspace of that name in this project."),
    counted=lambda n: ngettext("%(n)d workspace", "%(n)d workspaces", n) % {"n": n},
)
