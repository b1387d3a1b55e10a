"""Forms speak in cores and GiB; services in milli-CPU and MiB."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from notebooks import selectors
from notebooks.choices import WorkspaceKind
from notebooks.ui.attach_form import AttachForm
from notebooks.ui.program_form import ProgramForm, program_initial
from placement.clusters import clusters_of
from placement.decision import names_in
from placement.fleet import Fleet
from work.fields import MAX_GPUS
from work.gpu_offers import gpu_offers
from work.standard_fields import NAME, TIME_LIMIT

if TYPE_CHECKING:
    from accounts.principal import Principal
    from notebooks.models import Preset, Workspace
    from projects.models import Project

_MILLI, _MIB = Decimal(1000), Decimal(1024)
# From a service's field to the form's.
FORM_FIELDS = {"cpu_milli": "cpu", "memory_mib": "memory", "shm_mib": "shm"}


class KindsField(forms.MultipleChoiceField):
    """Kinds of GPU; an empty one among them says nothing."""

    def to_python(self, value: Any) -> list[str]:
        return [name for name in super().to_python(value) if name]


class SizeForm(ProgramForm, AttachForm):
    """All fields of a workspace. Empty means: as the preset says."""

    name = forms.CharField(
        label=_("Name"),
        required=False,
        max_length=NAME.longest,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    environment = forms.ChoiceField(label=_("Environment"), required=False)
    cpu = forms.DecimalField(
        label=_("CPU cores"),
        required=False,
        min_value=Decimal("0.1"),
        max_value=1024,
        decimal_places=1,
        widget=forms.NumberInput(attrs={"step": "0.1"}),
    )
    memory = forms.DecimalField(
        label=_("Memory in GiB"),
        required=False,
        min_value=Decimal("0.25"),
        max_value=16384,
        decimal_places=2,
        widget=forms.NumberInput(attrs={"step": "0.25"}),
    )
    gpus = forms.IntegerField(label=_("GPUs"), required=False, min_value=0, max_value=MAX_GPUS)
    gpu_flavor = KindsField(
        label=_("Kind of GPU"),
        required=False,
        widget=forms.CheckboxSelectMultiple(attrs={"data-ordered": _("Prefer")}),
        help_text=_(
            "Several: any of them, the upper ones preferred. None: a whole one of any kind."
        ),
    )
    time_limit_minutes = forms.IntegerField(
        label=_("Time limit in minutes"),
        required=False,
        min_value=0,
        max_value=TIME_LIMIT.high,
        help_text=_("0 means no limit, where the preset allows that."),
    )
    env = forms.CharField(
        label=_("Environment variables"),
        required=False,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "mono"}),
        help_text=_("One NAME=value on each line. Only you can see the values."),
    )

    def __init__(
        self,
        *args: Any,
        principal: Principal,
        project: Project,
        row: Workspace | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        names = selectors.environments_of(project)
        self._choices("environment", [(name, name) for name in names])
        usable = [c for c in clusters_of(project) if row is None or c.key == row.cluster_key]
        self.fleet = fleet = Fleet(usable, project.uid)
        kinds = gpu_offers(fleet, _works(row), row.cluster_key if row is not None else "")
        known = {name for name, _label in kinds}
        chosen = list(self.initial.get("gpu_flavor") or ())
        kinds += [(name, name) for name in chosen if name not in known]
        # What is chosen stands first, in its order: a form without a script sends it so again.
        rank = {name: number for number, name in enumerate(chosen)}
        self._choices("gpu_flavor", sorted(kinds, key=lambda k: rank.get(k[0], len(rank))))
        self.fit_program(fleet, usable, row)
        self.fit_attachments(principal, project, row)

    def _choices(self, name: str, choices: list[tuple[str, Any]]) -> None:
        field = self.fields[name]
        if not choices:
            self._without(name)
        elif isinstance(field, forms.ChoiceField):
            field.choices = choices

    def clean_gpu_flavor(self) -> str:
        return ",".join(self.cleaned_data["gpu_flavor"])

    def clean_env(self) -> dict[str, str] | None:
        text = self.cleaned_data["env"]
        env: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip():
                continue
            name, found, value = line.partition("=")
            if not found:
                raise forms.ValidationError(
                    _t("Line %(n)d is not NAME=value.") % {"n": number}, code="invalid"
                )
            env[name.strip()] = value
        return env

    def said(self) -> dict[str, Any]:
        """Return what was said, as API and document say it; what was left empty stays unsaid."""
        data = self.cleaned_data
        cpu, memory = data.get("cpu"), data.get("memory")
        found = {
            "name": data.get("name") or None,
            "environment": data.get("environment") or None,
            "cpu_milli": None if cpu is None else round(cpu * _MILLI),
            "memory_mib": None if memory is None else round(memory * _MIB),
            "gpus": data.get("gpus"),
            "gpu_flavor": data.get("gpu_flavor") if data.get("gpus") else None,
            "env": data.get("env") if "env" in self.data else None,
            "time_limit_minutes": data.get("time_limit_minutes"),
            **self.program(),
            **self.attachments(),
        }
        return {name: value for name, value in found.items() if value is not None}


def _works(row: Workspace | None) -> list[str]:
    return WorkspaceKind.values if row is None else [row.variant]


def initial_of(of: Workspace | Preset, kind: str) -> dict[str, Any]:
    return {
        "environment": of.environment,
        "cpu": Decimal(of.cpu_milli) / _MILLI,
        "memory": Decimal(of.memory_mib) / _MIB,
        "gpus": of.gpus,
        "gpu_flavor": list(names_in(of.gpu_flavor)),
        "time_limit_minutes": of.time_limit_minutes,
        **program_initial(of, kind),
    }


def launch_form(
    principal: Principal, project: Project, preset: Preset, data: Any = None
) -> SizeForm:
    initial = {**initial_of(preset, preset.kind), "cluster": preset.cluster_key}
    return SizeForm(data, principal=principal, project=project, initial=initial, prefix=None)


def edit_form(principal: Principal, row: Workspace, data: Any = None) -> SizeForm:
    env = "\n".join(f"{name}={value}" for name, value in row.env.items())
    initial = {**initial_of(row, row.variant), "name": row.name, "env": env}
    return SizeForm(data, principal=principal, project=row.project, row=row, initial=initial)
