"""The part of the form that is about data: volumes, credentials, loads that must be done first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from credentials.selectors import credentials_usable
from loaders.selectors import loads_visible_to
from notebooks.services.cluster_suggestion import READ, VOLUME_FIELD, WRITE
from projects.access import Permission, permissions_of
from volumes.selectors import may_write
from work.attached import MOST, attached_to, attached_usually, mountable

if TYPE_CHECKING:
    from accounts.principal import Principal
    from notebooks.models import Workspace
    from projects.models import Project
    from volumes.models import Volume
    from work.attached import Attached

OFFERED = 50  # of each; more are reached by the API and the command line


class AttachForm(forms.Form):
    """Mixed into the form of a workspace; what there is nothing of is left out."""

    chosen_volume = ""  # the one that somebody came from
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
        self._is_new = row is None
        self._offered: dict[str, Volume] = {}
        seen = {each.volume.uid: READ if each.read_only else WRITE for each in now.volumes}
        rows = list(mountable(principal, project, key)[:OFFERED])
        several = len({volume.cluster_key for volume in rows}) > 1
        for volume in rows:
            name = f"{VOLUME_FIELD}{volume.uid}"
            label = f"{volume.name} · {volume.cluster_key}" if several else volume.name
            self.fields[name] = forms.ChoiceField(
                label=label,
                required=False,
                choices=[("", _t("not there")), (WRITE, _t("written")), (READ, _t("only read"))],
            )
            self.initial[name] = seen.get(volume.uid, "")
            self._offered[name] = volume

    def choose_volume(self, principal: Principal, uid: str) -> None:
        """Have a new workspace see this volume from the first, where it is offered."""
        name = f"{VOLUME_FIELD}{uid}"
        if (volume := self._offered.get(name)) is None:
            return
        writes = may_write(principal, volume) and not volume.is_full
        self.initial.update({name: WRITE if writes else READ, "cluster": volume.cluster_key})
        self.chosen_volume = uid

    def _offer_many(self, name: str, choices: list[tuple[str, str]], now: list[str]) -> None:
        field = self.fields[name]
        if not choices:
            del self.fields[name]
        elif isinstance(field, forms.MultipleChoiceField):
            field.choices = choices
            self.initial[name] = now

    @property
    def volume_fields(self) -> list[Any]:
        return [self[name] for name in self.fields if name.startswith(VOLUME_FIELD)]

    @property
    def has_attachments(self) -> bool:
        return bool(self.volume_fields or "credentials" in self.fields or "needs" in self.fields)

    def attachments(self) -> dict[str, Any]:
        """Return what was said; a form that did not show these fields says nothing."""
        if not self.data.get("attach"):
            return {}
        data = self.cleaned_data
        found: dict[str, Any] = {}
        if self._says_volumes():
            found["volumes"] = [
                {"volume": name.removeprefix(VOLUME_FIELD), "read_only": data[name] == READ}
                for name in self._offered
                if data.get(name) and not self._is_left_elsewhere(name)
            ][:MOST]
        for name in ("credentials", "needs"):
            if name in self.fields:
                found[name] = list(data.get(name) or ())
        return found

    def _says_volumes(self) -> bool:
        """In a new one, what was offered and not touched is as if nothing were said of it: the
        shared volume of whatever cluster it comes to.
        """
        touched = any(name in self.changed_data for name in self._offered)
        return bool(self._offered) and (touched or not self._is_new)

    def _is_left_elsewhere(self, name: str) -> bool:
        """Whether it was offered, not chosen, and lies on another cluster than what was chosen."""
        if not self._is_new or name in self.changed_data:
            return False
        chosen = self.cleaned_data.get("cluster")
        meant = (
            {chosen}
            if chosen
            else {
                volume.cluster_key
                for other, volume in self._offered.items()
                if other in self.changed_data and self.cleaned_data.get(other)
            }
        )
        return bool(meant) and self._offered[name].cluster_key not in meant

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        for name, volume in self._offered.items():
            chosen = data.get("cluster")
            elsewhere = chosen and data.get(name) and volume.cluster_key != chosen
            if elsewhere and name in self.changed_data:
                message = _t("“%(volume)s” lies on %(cluster)s: choose that, or leave it out.")
                said = {"volume": volume.name, "cluster": volume.cluster_key}
                self.add_error(name, message % said)
        return data
