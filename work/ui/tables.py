from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import django_tables2 as tables
from django import forms
from django.db.models import Q
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from common.templatetags.berth import NOTHING, ago, duration
from common.ui.components import mark, menu
from runtime.protocol import Phase
from work.selectors import shared_with
from work.ui import bulk
from work.ui.pages import Column
from work.ui.present import reason_of, took
from work.ui.sizes import whole_size_words

if TYPE_CHECKING:
    from accounts.principal import Principal
    from work.ui.pages import Pages

WHOLE: dict[str, Any] = {"td": {"class": "text-nowrap"}}  # a number on the line of its unit
NUMBER: dict[str, Any] = {"td": {"class": "end num"}, "th": {"class": "end"}}
MENU: dict[str, Any] = {"td": {"class": "row-acts"}, "th": {"class": "row-acts"}}


class _Cell(tables.Column):
    """A column that only one kind has, as one reader sees it."""

    def __init__(self, column: Column, who: Principal) -> None:
        attrs = NUMBER if column.number else {}
        super().__init__(verbose_name=column.label, empty_values=(), orderable=False, attrs=attrs)
        self._column, self._who = column, who

    def render(self, record: Any) -> SafeString:
        return self._column.cell(self._who, record)


class WorkTable(tables.Table):
    """Name, state, size: what one looks for first."""

    name = tables.Column(verbose_name=_("Name"), attrs={"td": {"class": "name-cell"}})
    state = tables.Column(verbose_name=_("State"), empty_values=(), order_by="phase")
    owner = tables.Column(verbose_name=_("Owner"), order_by="owner__username")
    size = tables.Column(verbose_name=_("Size"), empty_values=(), orderable=False)
    started = tables.Column(verbose_name=_("Asked for"), accessor="asked_at")
    took = tables.Column(verbose_name=_("Took"), empty_values=(), orderable=False, attrs=WHOLE)
    ends = tables.Column(verbose_name=_("Ends"), accessor="ends_at")
    acts = tables.Column(verbose_name=_("Actions"), empty_values=(), orderable=False, attrs=MENU)

    class Meta:
        default = NOTHING
        order_by = "-started"
        attrs: ClassVar[dict[str, Any]] = {}

    def __init__(self, *args: Any, who: Principal, pages: Pages, **options: Any) -> None:
        own = {one.name: one for one in pages.columns if isinstance(one, Column)}
        shown = [one if isinstance(one, str) else one.name for one in pages.columns]
        super().__init__(
            *args,
            attrs={"aria_label": pages.kind.many},
            exclude=[name for name in self.base_columns if name not in shown],
            extra_columns=[(name, _Cell(one, who)) for name, one in own.items()],
            sequence=shown,
            **options,
        )
        self._who, self._pages = who, pages

    def render_name(self, value: str, record: Any) -> SafeString:
        box = (
            mark(self._pages.kind.key_of(record), value)
            if bulk.can_delete(self._who, record)
            else ""
        )
        named = '<div class="d-flex">{}<a href="{}">{}</a></div>'  # its lines are below each other
        return format_html(named, box, record.get_absolute_url(), value)

    def render_state(self, record: Any) -> SafeString:
        told = "" if self._is_plain(record) else reason_of(record)
        tells = self._pages.states.warning(record) or told
        return render_to_string("work/_row_state.html", {"row": record, "tells": tells})

    def _is_plain(self, row: Any) -> bool:
        """Whether its state says all: it runs, or it ended as it should."""
        return row.phase == Phase.RUNNING or (row.phase == Phase.STOPPED and row.is_seen)

    def render_owner(self, record: Any) -> str:
        return record.owner.label

    def render_size(self, record: Any) -> SafeString:
        parts = ((part,) for part in whole_size_words(record).split(" · "))
        # a kind of GPU breaks at its hyphen otherwise
        return format_html_join(" · ", '<span class="text-nowrap">{}</span>', parts)

    def render_started(self, value: Any) -> SafeString | str:
        return ago(value)

    def render_ends(self, value: Any) -> SafeString | str:
        return ago(value)

    def render_took(self, record: Any) -> str:
        return duration(took(record))

    def render_acts(self, record: Any) -> SafeString | str:
        return menu(record.name, bulk.acts_on(self._who, record))


class FilterForm(forms.Form):
    """The filters of a list of work; their state lives in the URL."""

    q = forms.CharField(
        label=_("Search"),
        required=False,
        max_length=80,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": _("Name or owner")}),
    )
    state = forms.ChoiceField(label=_("State"), required=False)
    mine = forms.ChoiceField(
        label=_("Whose"), required=False, choices=[("", _("Everybody")), ("1", _("Mine"))]
    )

    def __init__(self, *args: Any, pages: Pages, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pages = pages
        named = pages.filters
        states = [
            (word, named.get(word) or pages.states.words(word).label)
            for word in pages.states.filters
        ]
        if pages.matching_hint:
            self.fields["q"].widget.attrs["placeholder"] = pages.matching_hint
        self.fields["state"].choices = [("", _("Any")), *states]  # type: ignore[attr-defined]
        if pages.kind.shared:
            whose = self.fields["mine"]
            whose.choices = [*whose.choices, ("shared", _("Shared with me"))]  # type: ignore[attr-defined]


def filtered(form: FilterForm, rows: Any, who: Principal) -> Any:
    """Narrow ``rows``; a filter that makes no sense narrows nothing."""
    data = form.cleaned_data if form.is_valid() else {}
    words = data.get("q", "").replace("\x00", "")
    if words and form.pages.matching:
        rows = form.pages.matching(rows, words)
    elif words:
        rows = rows.filter(
            Q(name__icontains=words)
            | Q(owner__username__icontains=words)
            | Q(owner__display_name__icontains=words)
            | Q(short_id=words)
        )
    if state := data.get("state"):
        rows = rows.filter(form.pages.states.filters[state])
    if data.get("mine") == "1":
        rows = rows.filter(owner=who.user)
    if data.get("mine") == "shared":
        rows = rows.filter(pk__in=shared_with(who, form.pages.kind).values("pk"))
    return rows
