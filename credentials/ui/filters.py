"""Narrowing the list of credentials. Its state lives in the address, beside ``kind``, which says
what the form below the list is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet

    from credentials.kinds import Kind
    from credentials.models import Credential


class FilterForm(forms.Form):
    use_required_attribute = False
    q = forms.CharField(
        label=_("Search"),
        required=False,
        max_length=80,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": _("Name or address")}),
    )
    of = forms.ChoiceField(label=_("Kind"), required=False)

    def __init__(self, said: object, kinds: Iterable[Kind]) -> None:
        super().__init__(said)  # type: ignore[arg-type]
        named = [(kind.kind.value, kind.kind.label) for kind in kinds]
        self.fields["of"].choices = [("", _("Any")), *named]  # type: ignore[attr-defined]

    @property
    def narrows(self) -> bool:
        return any(self.data.get(name) for name in self.fields)

    def narrowed(self, rows: QuerySet[Credential]) -> QuerySet[Credential]:
        """Return those of ``rows`` that fit; a filter that makes no sense narrows nothing."""
        chosen = self.cleaned_data if self.is_valid() else {}
        if words := chosen.get("q"):
            fits = Q(name__icontains=words) | Q(description__icontains=words)
            rows = rows.filter(fits | Q(target__icontains=words))
        if kind := chosen.get("of"):
            rows = rows.filter(kind=kind)
        return rows
