"""Forms about clusters. ``values`` gives what the services of ``clusters`` take."""

from __future__ import annotations

from dataclasses import fields as dataclass_fields
from typing import Any

from django import forms
from django.utils.functional import lazy
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from clusters.options import (
    ACCESS_MODES,
    DIRECTORY,
    MODEL_SERVERS,
    NFS,
    PEERS,
    RANGES,
    STORAGE_CLASS,
    VOLUME_KINDS,
    ClusterOptions,
)
from common.ui.components import choice, search_field
from console import fields
from console.fields import EXACT, GroupedForm, area, exact
from console.views.base import FilterForm

ATTENTION = "attention"
HOMES = {
    STORAGE_CLASS: _("made by a storage class"),
    NFS: _("folders on an NFS server"),
    DIRECTORY: _("directories on the nodes (shared, or there is one node)"),
}
# What most clusters have: some class, whose volumes one node at a time may mount.
USUAL = ClusterOptions(volume_kind=STORAGE_CLASS, volume_access_mode="ReadWriteOnce")


def _about_servers() -> str:
    words = ", ".join(f"{word} ({loads})" for word, loads in MODEL_SERVERS.items())
    said = _t(
        "WORD=IMAGE on each line, for %(words)s. Endpoints of models whose server has none are"
        " refused."
    )
    return said % {"words": words}


def kubeconfig_field() -> forms.CharField:
    return forms.CharField(
        label=_("Kubeconfig"),
        max_length=64 * 1024,
        strip=False,
        # never put back into the page, whatever the answer is
        widget=Secret(attrs={**EXACT, "rows": 10}),
        help_text=_(
            "With server, certificate authority and token or client certificate inside the file."
            " It is sealed when it arrives and can't be read again, only replaced."
        ),
    )


class Secret(forms.Textarea):
    """A text area that never shows what was typed before."""

    def format_value(self, value: Any) -> str:
        del value
        return ""


class ClusterFilter(FilterForm):
    q = search_field()
    state = choice(_("State"), (ATTENTION, _("Needs a look")))


class OptionsForm(GroupedForm):
    """What may be set for a cluster; the same names as ``ClusterOptions``."""

    namespace_prefix = exact(
        _("Prefix of namespaces"),
        max_length=20,
        initial="berth-",
        help_text=_("Another one for each Berth that shares the cluster."),
        required=True,
    )
    hub_url = exact(
        _("Address of Berth for workspaces"),
        max_length=200,
        help_text=_("How pods reach the internal listener. Empty: BERTH_INTERNAL_URL."),
    )
    hub_peers = area(
        _("Where that listener is"),
        rows=2,
        help_text=_("For the network policy: namespace/app or an address range on each line."),
    )
    proxy_peers = area(
        _("Where the notebook proxy is"),
        rows=2,
        help_text=_("Only these may open connections to workspaces."),
    )
    dns_peers = area(_("Where the cluster's DNS is"), rows=2)
    internet = forms.BooleanField(
        label=_("Workspaces may open connections to the internet"), required=False, initial=True
    )
    blocked_cidrs = area(
        _("Blocked addresses"),
        rows=2,
        help_text=_("Ranges on each line, besides private ones, which are always blocked."),
    )
    allowed_cidrs = area(
        _("Allowed addresses"),
        rows=2,
        help_text=_(
            "Ranges on each line that workspaces and loads may reach although they are private,"
            " best with a port: 10.20.0.0/16:9000."
        ),
    )
    pod_cidrs = area(
        _("Addresses of pods"),
        rows=2,
        help_text=_("Ranges on each line: people are led nowhere else. Empty: not to the portal."),
    )
    volume_kind = forms.ChoiceField(
        label=_("Homes are"),
        choices=[(kind, HOMES[kind]) for kind in VOLUME_KINDS],
        help_text=_(
            "A storage class fits a cloud or a CSI driver. Directories need a program of yours that"
            " makes them on the nodes: Berth does not."
        ),
    )
    storage_class = exact(
        _("Storage class"), max_length=63, help_text=_("Empty: the cluster's default class.")
    )
    volume_access_mode = forms.ChoiceField(
        label=_("Access mode"),
        choices=[(m, m) for m in ACCESS_MODES],
        help_text=_(
            "Of a storage class. ReadWriteMany where it can: with another mode, all that uses a"
            " volume at one time must be on one node."
        ),
    )
    nfs_server = exact(
        _("NFS server"), max_length=253, help_text=_("As the nodes reach it: a name or an address.")
    )
    nfs_export = exact(
        _("NFS export"),
        max_length=200,
        help_text=_("Its top must be writable for the user number in containers."),
    )
    volume_path = exact(_("Directory on the nodes"), max_length=200)
    volume_size_gib = forms.IntegerField(label=_("Size of a home in GiB"), min_value=1)
    scratch_gib = forms.IntegerField(
        label=_("Space outside of volumes in GiB"),
        min_value=0,
        help_text=_("What a workload may write in its container. 0: no limit."),
    )
    cpu_overcommit = forms.IntegerField(
        label=_("How many times CPUs may be given"),
        min_value=1,
        max_value=100,
        help_text=_("1: every workload has its CPUs for itself. Memory is never given twice."),
    )
    scheduler = exact(
        _("Scheduler for work with GPUs"),
        max_length=63,
        help_text=_(
            "Name of a profile that packs. Empty: packed by preference, but not work that names"
            " kinds of GPU in an order: there the order decides."
        ),
    )
    queue = exact(
        _("Queue"),
        max_length=63,
        help_text=_("The LocalQueue of Kueue that admits workloads. Empty: none."),
    )
    manages_queues = forms.BooleanField(
        label=_("Berth manages the queues of Kueue"),
        required=False,
        help_text=_(
            "From its own tree of queues, for all work in projects' namespaces. Only while there"
            " is no work on the cluster. Leave the queue above empty."
        ),
    )
    training_operator = forms.BooleanField(
        label=_("Train by the training operator"),
        required=False,
        help_text=_(
            "PyTorch and TensorFlow run as its PyTorchJobs and TFJobs, although the Kubeflow"
            " Trainer or JobSet is there. Without those they do anyway."
        ),
    )
    unit_label = exact(
        _("Label of scalable units"),
        max_length=253,
        help_text=_(
            "A label of nodes whose value is the same in one unit, such as"
            " cloud.provider.com/topology-block. Empty: there are none."
        ),
    )
    rack_label = exact(
        _("Label of racks"),
        max_length=253,
        help_text=_(
            "The same of a rack, such as cloud.provider.com/topology-rack. With either, work may"
            " ask to stand together; nodes of a kind of GPU that lack what others of it carry get"
            " no work."
        ),
    )
    run_as_user = forms.IntegerField(
        label=_("User number in containers"), min_value=1, max_value=2**31 - 1
    )
    user_namespaces = forms.BooleanField(
        label=_("Containers run in user namespaces"),
        required=False,
        help_text=_("Only where the runtime supports it."),
    )
    default_image = exact(_("Image of presets that name none"), max_length=255)
    sidecar_image = exact(
        _("Image that signs people in"),
        max_length=255,
        help_text=_("Runs before ports of containers. Empty: the one above."),
    )
    data_image = exact(
        _("Image that copies data"),
        max_length=255,
        help_text=_("Has Berth's package dataplane. Empty: no loads and no file browser here."),
    )
    serving_images = area(
        _("Images of model servers"),
        rows=3,
        help_text=lazy(_about_servers, str)(),
    )
    check_image = exact(
        _("Image of the self-check"),
        max_length=255,
        help_text=_("Anything with python3. Empty: one of those above."),
    )
    kube_api_url = exact(
        _("API server for people's kubectl"), max_length=200, help_text=_("Empty: as attached.")
    )
    kube_api_ca = area(_("Its certificate authority"), rows=2, help_text=_("Empty: as attached."))
    portal_role = exact(
        _("Role inside projects"),
        max_length=253,
        help_text=_(
            "The ClusterRole that Berth's account has only in the namespaces of projects:"
            " berth-projects, if the account was made by the chart. Empty: its rights hold"
            " everywhere."
        ),
    )
    portal_account = exact(
        _("Account that gets it"),
        max_length=317,
        help_text=_(
            "The service account of the kubeconfig, as namespace/name: berth/berth, if it was made"
            " by the chart. Empty: as above."
        ),
    )
    trusted = forms.BooleanField(
        label=_("All projects trust each other"),
        required=False,
        help_text=_("Work is started even where the network doesn't keep projects apart."),
    )

    QUIET = ("*",)
    GROUPS = (
        (
            _("Network"),
            _("Where Berth is, as seen from pods, and what pods may reach."),
            ("namespace_prefix", "hub_url", *PEERS[:3], "internet", *RANGES, "trusted"),
        ),
        (
            _("Storage"),
            _("How homes are made."),
            (
                "volume_kind",
                "storage_class",
                "volume_access_mode",
                "nfs_server",
                "nfs_export",
                "volume_path",
                "volume_size_gib",
                "scratch_gib",
            ),
        ),
        (
            _("Placement"),
            _("What decides where and when work starts."),
            (
                "scheduler",
                "queue",
                "manages_queues",
                "training_operator",
                "unit_label",
                "rack_label",
                "cpu_overcommit",
                "run_as_user",
                "user_namespaces",
            ),
        ),
        (
            _("Images"),
            _("What is used where nothing else is named."),
            ("default_image", "sidecar_image", "data_image", "serving_images", "check_image"),
        ),
        (
            _("Berth's own rights"),
            _("For an account that may do little outside the namespaces of projects."),
            ("portal_role", "portal_account"),
        ),
        (
            _("kubectl"),
            _("How people's own kubectl reaches the cluster."),
            ("kube_api_url", "kube_api_ca"),
        ),
    )

    def option_values(self) -> dict[str, Any]:
        names = {f.name for f in dataclass_fields(ClusterOptions)} & set(self.fields)
        found = {name: self.cleaned_data[name] for name in names if name in self.cleaned_data}
        for name in PEERS:
            if name in found:
                found[name] = fields.lines_of(found[name])
        if "serving_images" in found:
            found["serving_images"] = fields.pairs(found["serving_images"], "serving_images")
        return found

    @staticmethod
    def initial_of(options: ClusterOptions) -> dict[str, Any]:
        found = options.as_json()
        found.pop("extra", None)
        found["serving_images"] = fields.pairs_text(found["serving_images"])
        return {**found, **{name: "\n".join(found[name]) for name in PEERS}}


class AttachForm(OptionsForm):
    """Name and file first; the rest has defaults that fit most clusters."""

    name = forms.CharField(label=_("Name"), max_length=120)
    key = forms.SlugField(
        label=_("Short name"),
        max_length=40,
        required=False,
        help_text=_("Stands in addresses and commands. Empty: made from the name."),
    )
    kubeconfig = kubeconfig_field()
    # said by the whole form: an unticked box is a choice then, else it has its default
    options = forms.CharField(widget=forms.HiddenInput, initial="shown", required=False)

    HEAD = ("name", "kubeconfig", "key")

    @classmethod
    def completed(cls, posted: dict[str, Any]) -> dict[str, Any]:
        """Fill in defaults where only name and kubeconfig were sent."""
        if "options" in posted:
            return posted
        return {**cls.initial_of(USUAL), **posted}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("initial", self.initial_of(USUAL) | {"options": "shown"})
        super().__init__(*args, **kwargs)


class SettingsForm(OptionsForm):
    name = forms.CharField(label=_("Name"), max_length=120)
    enabled = forms.BooleanField(
        label=_("In use"),
        required=False,
        help_text=_(
            "Off: Berth doesn't talk to it. Kubeconfigs that are revoked meanwhile end there when"
            " it is in use again; tokens of them that were given out go on for up to 24 hours."
        ),
    )
    drain = forms.BooleanField(
        label=_("Takes no new work"), required=False, help_text=_("What runs may go on.")
    )

    HEAD = ("name", "enabled", "drain")

    def own_values(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in ("name", "enabled", "drain")}


class KubeconfigForm(forms.Form):
    kubeconfig = kubeconfig_field()
