"""What an endpoint says of itself: what holds for its fields, its rights, its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Q
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from clusters.options import options_of
from common.errors import Conflict, wrong
from projects.access import Permission
from runtime.models import ONE_MACHINE
from runtime.protocol import Desired, Phase
from runtime.training import KSERVE
from serving import environments
from serving.choices import Files
from serving.fields import TABLE
from serving.models import Endpoint, ModelVersion
from serving.runtimes import CUSTOM, runtime_of, runtimes_for
from serving.selectors import default_of, lacks_files
from serving.services.canary import CANARY_NAME, check_edit, launched, stopping
from serving.services.history import served_first
from serving.services.scale import most_of
from serving.services.version_files import version_look
from work.choices import StopReason
from work.fields import Edit
from work.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from accounts.principal import Principal
    from clusters.models import Cluster
    from work.attached import Attached

_BOUNDS = frozenset({"min_replicas", "max_replicas"})


def version_named(row: Endpoint) -> ModelVersion:
    """Return the version that MODEL/VERSION means in its project; raise Invalid where it can't be
    served.
    """
    model, _slash, name = row.model.partition("/")
    found = ModelVersion.objects.filter(model__project=row.project, model__name=model)
    found = found.select_related("model", "volume__owner")
    version = found.filter(name=name).first() if name else default_of(found)
    if version is None:
        said = gettext(
            "There is no such model here: %(name)s. Choose another, or register it first."
        )
        raise wrong("model", said % {"name": row.model})
    if version.files == Files.FAILED:
        said = gettext("The files of %(name)s are not there. %(why)s")
        raise wrong("model", said % {"name": version, "why": version.problem})
    if not version.framework:
        said = gettext("The files of %(name)s are still looked at: try again in a moment.")
        raise wrong("model", said % {"name": version})
    return version


def _settle(row: Endpoint, said: Mapping[str, Any]) -> None:
    """Find its version and who can serve it; have bounds that hold."""
    if row.pk is None and row.name.startswith(CANARY_NAME):
        raise wrong("name", gettext("Names that begin with “canary-” are those of canaries."))
    kept = row.version if row.pk and row.version and row.model == str(row.version) else None
    if row.model:
        row.version = kept or version_named(row)
        row.model = str(row.version)
    else:
        row.version = None
    fits = runtimes_for(row.version.framework) if row.version else ()
    if row.version and row.runtime and row.runtime not in {one.word for one in fits}:
        message = gettext("It does not load %(framework)s. What would do: %(names)s.")
        names = ", ".join(str(one.label) for one in fits)
        told = {"framework": row.version.get_framework_display(), "names": names}
        raise wrong("runtime", message % told)
    if not row.version and not (row.image or row.command):
        raise wrong("model", gettext("Say a model, or an image or command of your own."))
    if row.version and row.version.volume and not row.cluster_key and not said.get("cluster"):
        row.cluster_key = row.version.volume.cluster_key
    runtime = runtime_of(row)
    if runtime.needs_gpu and not row.gpus:
        said_of = gettext("%(name)s needs a GPU.") % {"name": runtime.label}
        raise wrong("gpus", said_of)
    if row.min_replicas > row.max_replicas:
        if "max_replicas" in said:
            raise wrong("max_replicas", gettext("At least as many as the least."))
        row.max_replicas = row.min_replicas
    row.replicas = min(max(row.replicas, row.min_replicas), row.max_replicas)


def _check_place(cluster: Cluster, row: Endpoint) -> None:
    runtime, version = runtime_of(row), row.version
    volume = version.volume if version is not None else None
    if volume is not None and volume.cluster_key != cluster.key:
        message = gettext("The files of %(version)s are in a volume of %(cluster)s.")
        told: dict[str, object] = {"version": str(version), "cluster": volume.cluster_key}
        raise wrong("cluster" if row.pk is None else "model", message % told)
    if cluster.runs_images:
        if KSERVE not in cluster.operators:
            raise wrong("cluster", gettext("This cluster has no KServe, which endpoints need."))
        if runtime.word == CUSTOM and not row.image:
            raise wrong("image", gettext("A server of your own on a cluster needs an image."))
        named = row.image or options_of(cluster.options).serving_images.get(runtime.image)
        if runtime.word != CUSTOM and not named:
            message = gettext("%(cluster)s names no image for %(name)s; an operator can.")
            told = {"cluster": cluster.label, "name": str(runtime.label)}
            raise wrong("runtime", message % told)
        return
    if runtime.word == CUSTOM and not row.command:
        raise wrong("command", gettext("On this machine a server of your own needs a command."))
    if runtime.word != CUSTOM and not runtime.environment:
        message = gettext("%(name)s runs on clusters only.") % {"name": runtime.label}
        raise wrong("runtime", message)


def _look_at(row: Endpoint, _attached: Attached) -> list[str]:
    """Say what a plan would not show: how many replicas there may be, and what is not there yet."""
    told = []
    if row.max_replicas > row.min_replicas == most_of(row):
        told.append(gettext("GPUs of this machine are given once: it stays at the least."))
    runtime = runtime_of(row)
    if not runtime.is_tested:
        said = gettext("%(name)s was not tried by Berth's own tests, which have no GPU for it.")
        told.append(said % {"name": runtime.label})
    name = runtime.environment
    if name and row.cluster_key == ONE_MACHINE and not environments.is_there(name):
        said = gettext("This machine makes the model server first: about %(size)d MiB, once.")
        told.append(said % {"size": environments.SIZES_MIB[name]})
    return told


def _change(row: Endpoint, after: Endpoint, _fields: Collection[str]) -> None:
    """What runs is scaled to other bounds within limits, a moment later (``services.scale``).

    What it served until now is kept.
    """
    served_first(row)
    if row.is_on_its_way:
        after.replicas = row.replicas
    _hold(after)


def _needs_files(row: Endpoint, fields: Collection[str]) -> bool:
    """Whether something begins to run with them beside or instead of what answers."""
    began = row.desired == Desired.RUNNING and row.phase == Phase.RUNNING
    return began and any(
        name in _BOUNDS or name not in TABLE or TABLE[name].edit is Edit.RESTARTS for name in fields
    )


def _look_first(principal: Principal, row: Endpoint, fields: Collection[str]) -> None:
    """Notice now what nobody has noticed of the files that other replicas would need."""
    if row.version is not None and _needs_files(row, fields) and _BOUNDS & set(fields):
        version_look(row.version, anew=principal)


def _check_edit(row: Endpoint, after: Endpoint, fields: Collection[str]) -> None:
    """Refuse what would end what answers, or what a promotion that is on its way would undo."""
    check_edit(row, after, fields)
    lacking = lacks_files(row.version) if after.version_id == row.version_id else ""
    if lacking and _needs_files(row, fields):
        raise Conflict(lacking, code="files-gone")


def _prepare(_principal: Principal, row: Endpoint) -> None:
    _hold(row)


def _hold(row: Endpoint) -> None:
    """Have nobody delete its version until this is committed; say so where somebody has."""
    version = row.version
    if version is None:
        return
    if not ModelVersion.objects.select_for_update().filter(pk=version.pk).exists():
        said = gettext("There is no such model here: %(name)s.")
        raise wrong("model", said % {"name": row.model})


ENDPOINT = Kind(
    word=Endpoint.KIND,
    document="Endpoint",
    model=Endpoint,
    one=_("Endpoint"),
    many=_("Endpoints"),
    icon="api",
    table=TABLE,
    create=Permission.ENDPOINT_CREATE,
    read=Permission.ENDPOINT_READ,
    manage=Permission.ENDPOINT_MANAGE,
    managed=True,
    first_name=lambda row: row.model.partition("/")[0].removeprefix(CANARY_NAME) or Endpoint.KIND,
    settle=_settle,
    prepare=_prepare,
    change=_change,
    check_edit=_check_edit,
    look_first=_look_first,
    check_place=_check_place,
    look_at_attached=_look_at,
    homes=lambda row: row.homes,
    hidden=Q(canary_of__isnull=False),
    related=("version__volume", "version__model"),
    purpose="inference",
    replicas=lambda row: row.replicas,
    of_a_launch={"scaled_at": None, "taken_over": False},
    launched=launched,
    stopping=stopping,
    stopped={StopReason.ASLEEP: "asleep"},
    rests=frozenset({StopReason.ASLEEP}),
    stop_notices={
        StopReason.ASLEEP: "work.stopped"
    },  # only of what somebody else did: it comes back
    counted=lambda n: ngettext("%(n)d endpoint", "%(n)d endpoints", n) % {"n": n},
)
