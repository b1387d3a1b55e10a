"""The part of the form that is about data: volumes, credentials, loads that must be done first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from credentials.selectors import credentials_usable
from loaders.selectors import loads_visible_to
from notebooks.services.attaching import MOST, attached_to, attached_usually, mountable
from projects.access import Permission, permissions_of

if TYPE_CHECKING:
    from accounts.principal import Principal
    from notebooks.models import Workspace
    from notebooks.services.attaching import Attached
    from projects.models import Project

OFFERED = 50  # of each; more are reached by the API and the command line
_VOLUME = "volume-"
_WRITE, _READ = "rw", "ro"


class AttachForm(forms.Form):
    """Mixed into the form of a workspace; what there is nothing of is left out."""

    # Tells a form that shows these fields from a press that says nothing about them.
    attach = forms.CharField(required=False, widget=forms.HiddenInput, initial="1")
    credentials = forms.MultipleChoiceField(
        label=_("Credentials"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Their values are set when it starts; nobody can read them here."),
    )
    needs = forms.MultipleChoiceField(
        label=_("Data needed first"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("It asks for its GPUs only when these loads are done."),
    )

    def fit_attachments(
        self, principal: Principal, project: Project, row: Workspace | None
    ) -> None:
        """Offer what the person may use here."""
        now = attached_to(row) if row is not None else attached_usually(principal, project)
        self._offer_volumes(principal, project, row, now)
        keys = credentials_usable(principal, project)[:OFFERED]
        self._offer_many(
            "credentials",
            [(str(key.uid), f"{key.name} ({key.get_kind_display()})") for key in keys],
            [str(key.uid) for key in now.credentials],
        )
        loads: list[tuple[str, str]] = []
        if Permission.LOAD_READ in permissions_of(principal, project):
            rows = loads_visible_to(principal, project)[:OFFERED]
            loads = [(str(load.uid), load.name) for load in rows]
        self._offer_many("needs", loads, [str(load.uid) for load in now.needs])

    def _offer_volumes(
        self, principal: Principal, project: Project, row: Workspace | None, now: Attached
    ) -> None:
        key = row.cluster_key if row is not None else None
        seen = {each.volume.uid: _READ if each.read_only else _WRITE for each in now.volumes}
        rows = list(mountable(principal, project, key)[:OFFERED])
        several = len({volume.cluster_key for volume in rows}) > 1
        for volume in rows:
            name = f"{_VOLUME}{volume.uid}"
            label = f"{volume.name} · {volume.cluster_key}" if several else volume.name
            self.fields[name] = forms.ChoiceField(
                label=label,
                required=False,
                choices=[("", _t("not there")), (_WRITE, _t("written")), (_READ, _t("only read"))],
            )
            self.initial[name] = seen.get(volume.uid, "")

    def _offer_many(self, name: str, choices: list[tuple[str, str]], now: list[str]) -> None:
        field = self.fields[name]
        if not choices:
            del self.fields[name]
        elif isinstance(field, forms.MultipleChoiceField):
            field.choices = choices
            self.initial[name] = now

    @property
    def volume_fields(self) -> list[Any]:
        return [self[name] for name in self.fields if name.startswith(_VOLUME)]

    @property
    def has_attachments(self) -> bool:
        return bool(self.volume_fields or "credentials" in self.fields or "needs" in self.fields)

    def attachments(self) -> dict[str, Any]:
        """Return what was said; a form that did not show these fields says nothing."""
        if not self.data.get("attach"):
            return {}
        data = self.cleaned_data
        volumes = [
            {"volume": name.removeprefix(_VOLUME), "read_only": data[name] == _READ}
            for name in self.fields
            if name.startswith(_VOLUME) and data.get(name)
        ]
        found: dict[str, Any] = {"volumes": volumes[:MOST]} if self.volume_fields else {}
        for name in ("credentials", "needs"):
            if name in self.fields:
                found[name] = list(data.get(name) or ())
        return found
