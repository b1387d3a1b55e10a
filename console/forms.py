"""Forms of the console: filters, and what operators write."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.models import PlatformRole
from clusters.models import Cluster, Flavor
from common.ui.components import ANY, choice, search_field
from console.fields import (
    GroupedForm,
    ProjectsField,
    description_field,
    moment,
    position_field,
)
from console.views.base import FilterForm
from notebooks.choices import WorkspaceKind
from notebooks.kind import PRESET_TABLE
from notebooks.models import Preset
from notifications.choices import Severity
from projects.choices import Role
from projects.models import Project
from projects.others import REASON_MAX
from quotas.choices import CPU_MILLI, GPUS, LABELS, MEMORY_MIB, STORAGE_MIB, WORKSPACES
from work import standard_fields as s
from work.ui.forms import clean_each, form_field, from_form, key_of, to_form


class UserFilter(FilterForm):
    q = search_field()
    state = choice(_("State"), ("active", _("Active")), ("disabled", _("Disabled")))
    role = choice(
        _("Platform role"),
        (PlatformRole.OPERATOR.value, PlatformRole.OPERATOR.label),
        (PlatformRole.AUDITOR.value, PlatformRole.AUDITOR.label),
    )


class ProjectFilter(FilterForm):
    q = search_field()
    state = choice(_("State"), ("active", _("Active")), ("archived", _("Archived")))


class WorkspaceFilter(FilterForm):
    q = search_field()
    phase = choice(
        _("State"),
        ("pending", _("Waiting")),
        ("starting", _("Starting")),
        ("running", _("Running")),
        ("stopping", _("Stopping")),
        ("stopped", _("Stopped")),
        ("failed", _("Failed")),
    )
    gpu = choice(_("GPU"), ("yes", _("With GPU")), ("no", _("Without GPU")))
    cluster = choice(_("Cluster"))
    node = forms.CharField(label=_("Node"), required=False, max_length=253)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = [(row.key, row.label) for row in Cluster.objects.order_by("name", "key")]
        self.fields["cluster"].choices = [ANY, *known]  # type: ignore[attr-defined]


class PresetFilter(FilterForm):
    q = search_field()


class MachineFilter(FilterForm):
    q = search_field()


class AnnouncementFilter(FilterForm):
    q = search_field()


class AuditFilter(FilterForm):
    q = search_field()
    actor = forms.CharField(label=_("Who"), required=False, max_length=80)
    verb = forms.CharField(label=_("What"), required=False, max_length=64)
    outcome = choice(
        _("Outcome"), ("done", _("Done")), ("denied", _("Denied")), ("failed", _("Failed"))
    )
    since = moment(_("From"))
    until = moment(_("Until"))


class UserCreateForm(forms.Form):
    username = forms.CharField(label=_("Username"), max_length=64)
    display_name = forms.CharField(label=_("Name"), max_length=120, required=False)
    email = forms.EmailField(label=_("E-mail"), required=False)
    platform_role = forms.ChoiceField(
        label=_("Platform role"), choices=PlatformRole.choices, required=False
    )


class GroupFilter(FilterForm):
    q = search_field()


class GroupForm(forms.Form):
    group = forms.CharField(
        label=_("Group"),
        max_length=120,
        help_text=_("Exactly as the identity provider names it in its groups claim."),
    )
    project = forms.ModelChoiceField(
        label=_("Project"),
        queryset=Project.objects.none(),
        required=False,
        to_field_name="slug",
        empty_label=_("None: a role on the platform"),
    )
    role = forms.ChoiceField(
        label=_("Role in the project"), required=False, choices=[("", "—"), *Role.choices]
    )
    platform_role = forms.ChoiceField(
        label=_("Role on the platform"),
        required=False,
        choices=[
            ("", "—"),
            (PlatformRole.OPERATOR.value, PlatformRole.OPERATOR.label),
            (PlatformRole.AUDITOR.value, PlatformRole.AUDITOR.label),
        ],
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["project"]
        field.queryset = Project.objects.filter(deleted_at__isnull=True).order_by("slug")  # type: ignore[attr-defined]


class RoleForm(forms.Form):
    platform_role = forms.ChoiceField(
        label=_("Platform role"), choices=PlatformRole.choices, required=False
    )


class PresetForm(GroupedForm):
    """What a preset says of work is asked for as by the form of work; ``values`` reads it back."""

    OF_WORK = (
        *(s.ENVIRONMENT, s.CPU, s.MEMORY, s.GPUS, s.GPU_FLAVOR, s.SHM, s.POOL, s.NETWORK, s.IMAGE),
        *(PRESET_TABLE[name] for name in ("kind", "command", "args", "ports")),
    )

    name = forms.CharField(label=_("Name"), max_length=60)
    description = description_field()
    icon = forms.SlugField(
        label=_("Icon"),
        max_length=40,
        initial="notebook",
        required=False,
        help_text=_("A name of the Tabler icons, such as notebook, cpu-2 or flask."),
    )
    cluster_key = forms.ChoiceField(
        label=_("Cluster"), required=False, help_text=_("Empty: where it starts first.")
    )
    time_limit_minutes = forms.IntegerField(
        label=_("Time limit in minutes"),
        min_value=1,
        required=False,
        help_text=_("Empty: it runs until it is stopped."),
    )
    max_time_limit_minutes = forms.IntegerField(
        label=_("Longest time in minutes"),
        min_value=1,
        required=False,
        help_text=_("How far a person may extend. Empty: as far as they like."),
    )
    idle_stop_minutes = forms.IntegerField(
        label=_("Stop after idle minutes"),
        min_value=1,
        required=False,
        help_text=_("Empty: never stopped for being idle."),
    )
    position = position_field(initial=50)
    projects = ProjectsField()
    is_active = forms.BooleanField(label=_("Offered to people"), required=False, initial=True)

    QUIET = ("icon", "position")
    HEAD = (
        "name",
        "description",
        ("cpu", "memory"),
        ("gpus", s.GPU_FLAVOR.name),
        "time_limit_minutes",
        "is_active",
    )
    GROUPS = (
        (
            _("What runs"),
            _("Image, command and ports matter on clusters, the environment on one machine."),
            ("kind", "environment", "image", "command", "args", "ports"),
        ),
        (
            _("Where it runs"),
            _("Only where clusters are attached."),
            ("cluster_key", "pool", "network", "shm"),
        ),
        (
            _("How long it may run"),
            _("Besides the time limit above."),
            ("max_time_limit_minutes", "idle_stop_minutes"),
        ),
        (
            _("Who sees it, and how"),
            _("Everybody, in the order of their positions."),
            ("projects", "position", "icon"),
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        clusters = [(row.key, row.label) for row in Cluster.objects.order_by("name")]
        self.fields["cluster_key"].choices = [ANY, *clusters]  # type: ignore[attr-defined]
        kinds = [(row.name, row.label) for row in Flavor.objects.order_by("name")]
        new = self.told(Preset())
        for field in self.OF_WORK:
            made = form_field(field, {s.GPU_FLAVOR.name: kinds})
            if made is not None:  # without a kind of GPU there is none to choose
                made.initial = new[key_of(field)]
                made.required = field in (s.ENVIRONMENT, s.CPU, s.MEMORY, s.GPUS)
                self.fields[key_of(field)] = made

    @classmethod
    def told(cls, row: Preset) -> dict[str, Any]:
        """Return a preset as the fields say it; ``values`` leads back."""
        of_work = {key_of(x): to_form(x, getattr(row, x.name)) for x in cls.OF_WORK}
        projects = list(row.projects.all()) if row.pk else []
        same = {name: getattr(row, name) for name in cls.base_fields if name != "projects"}
        return {**same, **of_work, "projects": projects}

    def values(self) -> dict[str, Any]:
        data = {name: self.cleaned_data[name] for name in self.base_fields if name != "projects"}
        for field in self.OF_WORK:
            if (value := self.cleaned_data.get(key_of(field))) is not None:
                data[field.name] = from_form(field, value)
        data["kind"] = data["kind"] or WorkspaceKind.NOTEBOOK
        data["icon"] = data["icon"] or "notebook"
        return data

    def clean(self) -> dict[str, Any]:
        return clean_each(self, {key_of(field): field for field in self.OF_WORK})


class AnnouncementForm(forms.Form):
    message = forms.CharField(
        label=_("Message"), max_length=500, widget=forms.Textarea(attrs={"rows": 3})
    )
    severity = forms.ChoiceField(label=_("Severity"), choices=Severity.choices)
    starts_at = moment(_("From"), help_text=_("Empty: from now."))
    ends_at = moment(_("Until"), help_text=_("Empty: until it is removed."))


class LimitsForm(forms.Form):
    """Each field empty = no limit. Memory and storage in GiB, CPU in CPUs."""

    UNITS = {CPU_MILLI: 1000, MEMORY_MIB: 1024, STORAGE_MIB: 1024}
    NAMES = {
        GPUS: LABELS[GPUS],
        CPU_MILLI: _("CPUs"),
        MEMORY_MIB: _("Memory in GiB"),
        STORAGE_MIB: _("Storage in GiB"),
        WORKSPACES: LABELS[WORKSPACES],
    }

    def __init__(self, *args: Any, flavors: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for key, label in self.NAMES.items():
            self._add(key, label)
            if key == GPUS:
                for name, shown in flavors:
                    self._add(f"gpus:{name}", _("GPUs of the kind %(kind)s") % {"kind": shown})

    def _add(self, key: str, label: Any) -> None:
        self.fields[key] = forms.DecimalField(
            label=label,
            required=False,
            min_value=0,
            decimal_places=2 if key in self.UNITS else 0,
            max_digits=12,
        )

    @classmethod
    def initial_of(cls, limits: dict[str, int]) -> dict[str, Any]:
        return {key: _plain(amount / cls.UNITS.get(key, 1)) for key, amount in limits.items()}

    def limits(self) -> dict[str, int | None]:
        return {
            key: None if value is None else round(value * self.UNITS.get(key, 1))
            for key, value in self.cleaned_data.items()
        }


def _plain(value: float) -> float | int:
    return int(value) if value == int(value) else round(value, 2)


class ReasonForm(forms.Form):
    """Why an operator ends what is somebody else's; its owner reads it."""

    reason = forms.CharField(label=_("Reason"), max_length=REASON_MAX)
