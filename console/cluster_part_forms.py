"""Forms about what a cluster is made of: kinds of GPU, pools, extra networks, nodes."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from clusters.accelerators import known_of
from clusters.models import Cluster, Flavor, Pool
from clusters.services.base import KINDS_OF_WORK
from clusters.wording import WORK
from common.ui.components import ANY, choice, search_field
from console import fields
from console.fields import (
    ProjectsField,
    area,
    description_field,
    exact,
    position_field,
    price_field,
)
from console.views.base import FilterForm


class FlavorForm(forms.Form):
    name = forms.SlugField(
        label=_("Short name"),
        max_length=63,
        help_text=_("As people ask for it, for example h100-80. It never changes."),
    )
    label = forms.CharField(label=_("Name"), max_length=120, required=False)
    resource = exact(
        _("Resource"),
        max_length=120,
        required=True,
        initial="nvidia.com/gpu",
        help_text=_("What nodes call one such device; any accelerator's will do."),
    )
    node_labels = area(
        _("Labels of its nodes"),
        help_text=_("name=value on each line; several values by comma: any of them."),
    )
    use_source = area(
        _("Figures of use"),
        help_text=_(
            "name=value on each line: which exporter tells what these devices do, and in which "
            "words. Empty: what is known of the resource."
        ),
    )
    match = exact(
        _("Part of the device's name"),
        max_length=200,
        help_text=_("How it is recognised on a single machine."),
    )
    memory_mib = forms.IntegerField(
        label=_("Memory in MiB"), min_value=0, initial=0, max_value=2**31 - 1
    )
    price_per_hour = price_field(_("Price of an hour"), max_digits=10, decimal_places=2)
    weight = forms.DecimalField(
        label=_("Weight in budgets"),
        min_value=0,
        max_value=1000,
        max_digits=7,
        decimal_places=3,
        initial=1,
        required=False,
        help_text=_("What an hour of it counts, in GPU-hours: 0.4 for a smaller kind."),
    )
    position = position_field()

    def values(self) -> dict[str, Any]:
        found = dict(self.cleaned_data)
        if found["weight"] is None:  # as it was
            del found["weight"]
        found["node_labels"] = fields.sets(found["node_labels"], "node_labels")
        found["use_source"] = fields.pairs(found["use_source"], "use_source")
        return found

    def show_known(self, row: Flavor) -> None:
        """What holds while the field is empty."""
        known = fields.pairs_text(known_of(row.resource))
        self.fields["use_source"].widget.attrs.update(placeholder=known, rows=8)

    @staticmethod
    def initial_of(row: Flavor) -> dict[str, Any]:
        names = ("name", "label", "resource", "match", "memory_mib", "price_per_hour", "position")
        found = {name: getattr(row, name) for name in names}
        found["weight"] = f"{row.weight.normalize():f}"
        found["node_labels"] = fields.sets_text(row.node_labels)
        return {**found, "use_source": fields.pairs_text(row.use_source)}


class PartForm(forms.Form):
    """What pools and networks share."""

    def __init__(self, *args: Any, cluster: Cluster, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cluster = cluster

    def uids(self) -> list[str]:
        return [str(project.uid) for project in self.cleaned_data["projects"]]


class PoolForm(PartForm):
    part = "pool"  # as the service calls it

    name = forms.SlugField(label=_("Name"), max_length=40)
    description = description_field()
    node_labels = area(
        _("Labels of its nodes"),
        rows=2,
        help_text=_("name=value on each line. A reserved pool has exactly one."),
    )
    tolerations = area(
        _("Tolerations"),
        rows=2,
        help_text=_("key=value:Effect on each line, as the nodes' taints are written."),
    )
    flavors = forms.ModelMultipleChoiceField(
        label=_("Kinds of GPU"),
        queryset=Flavor.objects.order_by("position", "name"),
        required=False,
        to_field_name="name",
        widget=forms.CheckboxSelectMultiple,
        help_text=_("None chosen: any."),
    )
    kinds = forms.MultipleChoiceField(
        label=_("Only for this kind of work"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        choices=[(name, WORK[name]) for name in KINDS_OF_WORK],
        help_text=_("None chosen: any."),
    )
    projects = ProjectsField()
    position = position_field()

    def values(self) -> dict[str, Any]:
        found = dict(self.cleaned_data)
        found.pop("projects")
        found["project_uids"] = self.uids()
        found["node_labels"] = fields.pairs(found["node_labels"], "node_labels")
        found["tolerations"] = fields.tolerations(found["tolerations"])
        found["flavors"] = [flavor.name for flavor in found["flavors"]]
        return found

    @staticmethod
    def initial_of(row: Pool) -> dict[str, Any]:
        return {
            "name": row.name,
            "description": row.description,
            "node_labels": fields.pairs_text(row.node_labels),
            "tolerations": fields.tolerations_text(row.tolerations),
            "flavors": [flavor.name for flavor in row.flavors.all()],
            "kinds": row.kinds,
            "projects": row.project_uids,
            "position": row.position,
        }


class NetworkForm(PartForm):
    part = "network"

    name = forms.SlugField(label=_("Name"), max_length=40)
    description = description_field()
    attachment = exact(
        _("Network attachment"),
        max_length=200,
        required=True,
        help_text=_("namespace/name of the NetworkAttachmentDefinition."),
    )
    resource = exact(
        _("Resource of one card"),
        max_length=120,
        help_text=_("For example nvidia.com/mlnx_sriov_pf0_vf. Empty: it takes nothing."),
    )
    further = area(
        _("Further cards"),
        rows=2,
        help_text=_(
            "attachment and resource on each line: for the second card, the third and so on; then"
            " the first again. Empty: all are like the first."
        ),
    )
    count = forms.IntegerField(label=_("Cards"), min_value=1, max_value=64, initial=1)
    per_gpu = forms.BooleanField(label=_("So many for each GPU"), required=False, initial=True)
    env = area(_("Variables"), rows=2, help_text=_("NAME=value on each line."))
    pools = forms.ModelMultipleChoiceField(
        label=_("In these pools"),
        queryset=Pool.objects.none(),
        required=False,
        to_field_name="name",
        widget=forms.CheckboxSelectMultiple,
        help_text=_("None chosen: on every node."),
    )
    projects = ProjectsField()

    def __init__(self, *args: Any, cluster: Cluster, **kwargs: Any) -> None:
        super().__init__(*args, cluster=cluster, **kwargs)
        if not cluster.pools.exists():
            del self.fields["pools"]  # nothing to choose from
            return
        self.fields["pools"].queryset = cluster.pools.all()  # type: ignore[attr-defined]

    def values(self) -> dict[str, Any]:
        found = dict(self.cleaned_data)
        found.pop("projects")
        found["project_uids"] = self.uids()
        found["further"] = fields.cards(found["further"], "further")
        found["env"] = fields.pairs(found["env"], "env")
        found["pools"] = [pool.name for pool in found.get("pools", ())]
        return found

    @staticmethod
    def initial_of(row: Any) -> dict[str, Any]:
        names = ("name", "description", "attachment", "resource", "count", "per_gpu")
        found = {name: getattr(row, name) for name in names}
        found["further"] = fields.cards_text(row.further)
        found["env"] = fields.pairs_text(row.env)
        return {
            **found,
            "pools": [pool.name for pool in row.pools.all()],
            "projects": row.project_uids,
        }


class NodeFilter(FilterForm):
    q = search_field()
    kind = choice(_("Kind of GPU"))
    pool = choice(_("Pool"))
    ready = choice(_("State"), ("yes", _("Ready")), ("no", _("Not ready")))
    gpus = choice(
        _("GPUs"),
        ("free", _("Some are free")),
        ("held", _("Some are held")),
        ("unheld", _("None is held")),
    )

    def __init__(self, *args: Any, cluster: Cluster, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        kinds = [(name, name) for name in sorted(cluster.kinds or {})]
        self.fields["kind"].choices = [ANY, *kinds]  # type: ignore[attr-defined]
        names = [(pool.name, pool.name) for pool in cluster.pools.all()]
        self.fields["pool"].choices = [ANY, *names]  # type: ignore[attr-defined]


class FlavorFilter(FilterForm):
    q = search_field()
