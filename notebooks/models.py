"""Presets (one press), workspaces (what runs), who was let in, and what happened when."""

from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from common.ids import new_uid
from credentials.sealing import SealedMapping
from notebooks import states
from notebooks.choices import WorkspaceKind
from projects.models import Project
from volumes.models import Volume
from work.models import Ask, Workload

if TYPE_CHECKING:
    from work.why import Why


def _none() -> models.Value:
    return models.Value([], output_field=models.JSONField())


class Program(models.Model):
    """What runs on a cluster; shared by presets and workspaces. One machine has none of it.

    The database has defaults too: the version before this one goes on writing during an upgrade.
    """

    image = models.CharField(_("image"), max_length=512, blank=True, default="", db_default="")
    # []: the image's own
    command = models.JSONField(_("command"), default=list, blank=True, db_default=_none())
    args = models.JSONField(_("arguments"), default=list, blank=True, db_default=_none())
    # [{port, name, web}]
    ports = models.JSONField(_("ports"), default=list, blank=True, db_default=_none())

    class Meta:
        abstract = True


PRESET_KINDS = [one for one in WorkspaceKind.choices if one[0] != WorkspaceKind.TENSORBOARD]


def _variant(choices: list[tuple[str, Any]]) -> Any:
    return models.CharField(
        max_length=16,
        choices=choices,
        default=WorkspaceKind.NOTEBOOK,
        db_default=WorkspaceKind.NOTEBOOK.value,
    )


class Preset(Ask, Program):
    """Image, size and defaults under one name; made by operators."""

    kind = _variant(PRESET_KINDS)

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(_("name"), max_length=60)
    description = models.CharField(_("description"), max_length=300, blank=True, default="")
    icon = models.SlugField(_("icon"), max_length=40, default="notebook")
    environment = models.CharField(_("environment"), max_length=255, default="jupyterlab")
    cluster_key = models.CharField(  # "": any
        _("cluster"), max_length=63, blank=True, default="", db_default=""
    )
    # None: no limit; max None: the person may choose any limit, or none
    time_limit_minutes = models.PositiveIntegerField(_("time limit"), null=True, blank=True)
    max_time_limit_minutes = models.PositiveIntegerField(_("longest time"), null=True, blank=True)
    # None: never stopped for being idle
    idle_stop_minutes = models.PositiveIntegerField(_("stop when idle for"), null=True, blank=True)
    default_env = models.JSONField(default=dict, blank=True)  # shown to who may launch it
    projects = models.ManyToManyField(Project, blank=True, related_name="presets")  # none: all
    position = models.PositiveIntegerField(default=0)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["position", "name"]

    def __str__(self) -> str:
        return self.name


class Workspace(Program, Workload):
    """Somebody's running (or stopped) work. Files, address and settings survive a stop."""

    KIND = "workspace"
    NAMES_PER_OWNER = True
    variant = _variant(WorkspaceKind.choices)  # what API, document and command line call its kind

    preset = models.ForeignKey(
        Preset, null=True, on_delete=models.SET_NULL, related_name="workspaces"
    )
    environment = models.CharField(max_length=255, default="jupyterlab")
    # what a launch or an edit pinned, and when (None: before that was kept)
    image_digest = models.CharField(max_length=80, blank=True, default="", db_default="")
    image_pinned_at = models.DateTimeField(null=True)
    # TensorBoard's: VOLUME/FOLDER of each that it shows
    logdir = models.JSONField(default=list, blank=True, db_default=_none())
    env = SealedMapping(default=dict, blank=True)  # private to the owner
    home = models.ForeignKey(Volume, on_delete=models.PROTECT, related_name="workspaces")
    idle_stop_minutes = models.PositiveIntegerField(null=True)
    idle_warned_at = models.DateTimeField(null=True)  # of the version before; nothing reads it
    idle_stop_at = models.DateTimeField(null=True)  # the same; parking has it now
    last_used_at = models.DateTimeField(null=True)

    def get_absolute_url(self) -> str:
        return f"/projects/{self.project.slug}/workspaces/{self.short_id}/"

    @property
    def is_container(self) -> bool:
        return self.variant == WorkspaceKind.CONTAINER

    @property
    def is_tensorboard(self) -> bool:
        return self.variant == WorkspaceKind.TENSORBOARD

    @property
    def pinned_tag(self) -> str:
        """The digest that stands for its image's tag; empty where none does."""
        return "" if not self.image or "@" in self.image else self.image_digest

    @property
    def web_ports(self) -> list[dict[str, Any]]:
        """The ports that people open in a browser, in the order of their sidecars."""
        return [port for port in self.ports if port.get("web")]

    @property
    def homes(self) -> tuple[Volume, ...]:
        return (self.home,)

    @property
    def why(self) -> "Why":
        """Why it is as it is: in the reader's language, and what a program said of it."""
        return states.why_of(self)

    @property
    def shown_message(self) -> str:
        return self.why.sentence

    @property
    def warning(self) -> str:
        """What is wrong around it while it runs, in the reader's language; usually nothing."""
        return states.warning_of(self)
