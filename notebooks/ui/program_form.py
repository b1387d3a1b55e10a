"""The part of the form that only clusters have: what runs, with which ports, where."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext_lazy as _

from notebooks.choices import WorkspaceKind
from notebooks.kind import PORTS
from notebooks.ui import texts

if TYPE_CHECKING:
    from clusters.models import Cluster
    from notebooks.models import Preset, Workspace
    from placement.fleet import Fleet

_MIB = Decimal(1024)
_MONO = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false", "class": "mono"}


class ProgramForm(forms.Form):
    """Mixed into the form of a workspace; fields that make no sense here are taken out."""

    kind = forms.ChoiceField(
        label=_("What runs"),
        choices=WorkspaceKind.choices,
        required=False,
        widget=forms.RadioSelect(attrs={"data-kind-switch": ""}),
    )
    cluster = forms.ChoiceField(
        label=_("Cluster"),
        required=False,
        widget=forms.Select(attrs={"data-cluster-switch": ""}),
    )
    image = forms.CharField(
        label=_("Image"),
        required=False,
        max_length=512,
        widget=forms.TextInput(attrs={**_MONO, "placeholder": "registry.example.org/team/name:1"}),
    )
    newest_image = forms.BooleanField(
        label=_("Take the newest image of this tag"),
        required=False,
        help_text=_("For a tag that was pushed again: else every start takes what is pinned."),
    )
    command = forms.CharField(
        label=_("Command"),
        required=False,
        max_length=32_000,
        widget=forms.TextInput(attrs=_MONO),
        help_text=_("Empty: what the image starts by itself. Nothing is expanded."),
    )
    args = forms.CharField(
        label=_("Arguments"),
        required=False,
        max_length=32_000,
        widget=forms.TextInput(attrs=_MONO),
        help_text=_("Added to the command, or to the image's own."),
    )
    ports = forms.CharField(
        label=_("Ports"),
        required=False,
        max_length=1_000,
        widget=forms.Textarea(attrs={**_MONO, "rows": 2, "placeholder": "7860 demo"}),
        help_text=_(
            "One on each line, with a name if you like. Each opens as a page behind the sign-in; "
            "write “private” after one that is none."
        ),
    )
    shm = forms.DecimalField(
        label=_("Shared memory in GiB"),
        required=False,
        min_value=Decimal(0),
        max_value=16384,
        decimal_places=2,
        widget=forms.NumberInput(attrs={"step": "0.25"}),
        help_text=_("Part of the memory. Data loaders with several processes want some."),
    )
    pool = forms.ChoiceField(label=_("Pool"), required=False)
    network = forms.ChoiceField(label=_("Extra network"), required=False)

    def fit_program(self, fleet: Fleet, usable: list[Cluster], row: Workspace | None) -> None:
        """Offer what exists: on the clusters of the project, or on the workspace's own."""
        images = [cluster for cluster in usable if cluster.runs_images]
        if images and len(images) == len(usable):
            self._without("environment")
        if not images:
            self._without("kind", "image", "command", "args", "ports", "shm", "pool", "network")
        if not images or row is None or not row.image or "@" in row.image:
            self._without("newest_image")
        if row is not None:
            self._without("kind")
            if not row.is_container:
                self._without("command", "args", "ports")
        if row is not None or len(usable) < 2:  # noqa: PLR2004 - nothing to choose
            self._without("cluster")
        elif isinstance(field := self.fields["cluster"], forms.ChoiceField):
            found = [(cluster.key, cluster.label) for cluster in usable]
            field.choices = [("", _("Where it starts first")), *found]
        self._offer(fleet)
        if "ports" in self.fields:  # all that are set are in sight
            lines = str(self["ports"].value() or "").count("\n") + 1
            self.fields["ports"].widget.attrs["rows"] = max(2, min(lines, PORTS.most))

    def _offer(self, fleet: Fleet) -> None:
        pools, networks = fleet.pools(WorkspaceKind.values), fleet.networks()
        for name, rows, none in (("pool", pools, _("Any")), ("network", networks, _("None"))):
            found = {row.name: row.description or row.name for row in rows}
            field = self.fields.get(name)
            if not found:
                self._without(name)
            elif isinstance(field, forms.ChoiceField):
                field.choices = [("", none), *found.items()]

    def _without(self, *names: str) -> None:
        for name in names:
            self.fields.pop(name, None)

    def clean_command(self) -> list[str]:
        return texts.words(self.cleaned_data["command"])

    def clean_args(self) -> list[str]:
        return texts.words(self.cleaned_data["args"])

    def clean_ports(self) -> list[dict[str, Any]]:
        return texts.ports(self.cleaned_data["ports"])

    def program(self) -> dict[str, Any]:
        """Return what was said of the program; a field that is not there says nothing."""
        data = self.cleaned_data
        shm = data.get("shm")
        kind = data.get("kind") or None
        found: dict[str, Any] = {
            "kind": kind,
            "cluster": data.get("cluster") or None,
            "image": data.get("image") if "image" in self.data else None,
            "newest_image": data.get("newest_image") or None,
            "shm_mib": None if shm is None else round(shm * _MIB),
            "pool": data.get("pool"),
            "network": data.get("network"),
        }
        if kind != WorkspaceKind.NOTEBOOK:  # a notebook's form hides them: they say nothing then
            for name in ("command", "args", "ports"):
                if name in self.fields and name in self.data:
                    found[name] = data.get(name)
        return found


def program_initial(of: Workspace | Preset, kind: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "image": of.image,
        "command": texts.line(of.command),
        "args": texts.line(of.args),
        "ports": texts.port_lines(of.ports),
        "shm": Decimal(of.shm_mib) / _MIB if of.shm_mib else None,
        "pool": of.pool,
        "network": of.network,
    }
