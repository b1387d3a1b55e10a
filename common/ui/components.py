"""What pages are made of: fields, rows of lists, tabs, and the columns of drawings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django import forms
from django.forms.boundfield import BoundField
from django.forms.renderers import TemplatesSetting
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

if TYPE_CHECKING:
    from django.utils.functional import Promise


class BerthBoundField(BoundField):
    """Adds Tabler's class to the widget and says when a value is wrong."""

    def as_widget(
        self,
        widget: forms.Widget | None = None,
        attrs: dict[str, Any] | None = None,
        only_initial: bool = False,  # noqa: FBT001, FBT002 - Django's signature
    ) -> SafeString:
        chosen = widget or self.field.widget
        attrs = dict(attrs or {})
        css = widget_class(chosen)
        if css:
            given = str(attrs.get("class", chosen.attrs.get("class", "")))
            invalid = " is-invalid" if self.errors else ""
            attrs["class"] = f"{given} {css}{invalid}".strip()
        return super().as_widget(widget, attrs, only_initial)

    @property
    def marks_optional(self) -> bool:
        """Say "(optional)" only where other fields are not: else it is noise on every line."""
        if self.field.required or isinstance(self.field.widget, forms.CheckboxInput):
            return False
        return any(field.required for field in self.form.fields.values())

    def label_tag(
        self,
        contents: str | None = None,
        attrs: dict[str, Any] | None = None,
        label_suffix: str | None = None,  # noqa: ARG002 - never a colon: the layout says it
        tag: str | None = None,
    ) -> SafeString:
        return super().label_tag(contents, attrs, "", tag)

    @property
    def is_check(self) -> bool:
        return isinstance(self.field.widget, forms.CheckboxInput)


def widget_class(widget: forms.Widget) -> str:
    """Return the class of Tabler for a widget ('' for groups of inputs)."""
    if isinstance(widget, forms.CheckboxInput):
        return "form-check-input"
    if isinstance(widget, forms.RadioSelect | forms.CheckboxSelectMultiple):
        return ""
    if isinstance(widget, forms.Select):
        return "form-select"
    return "form-control"


class BerthFormRenderer(TemplatesSetting):
    """One field template for every form: templates/components/field.html."""

    field_template_name = "components/field.html"
    bound_field_class = BerthBoundField


# What a list is narrowed by.


ANY = ("", _lazy("Any"))


def search_field(placeholder: str | Promise = "") -> forms.CharField:
    hint = {"placeholder": placeholder} if placeholder else {}
    widget = forms.TextInput(attrs={"type": "search", **hint})
    return forms.CharField(label=_lazy("Search"), required=False, max_length=80, widget=widget)


def choice(
    label: Any, *options: tuple[str, Any], any_of: tuple[str, Any] = ANY
) -> forms.ChoiceField:
    return forms.ChoiceField(label=label, required=False, choices=[any_of, *options])


class FilterForm(forms.Form):
    """Every filter is optional; an unknown value filters nothing. Its state lives in the URL."""

    use_required_attribute = False


# What can be done to a row of a list: a menu on it, and a mark for what is done to several.
#
# The marks belong to the form of ``components/bulk.html``, which stands outside the part of the
# page that refreshes itself, and the menus' buttons to another there: a form can't be inside one.


@dataclass(frozen=True)
class Act:
    """A line of a row's menu: a page to go to, or (``posts``) something that is done at once."""

    label: str | Promise
    icon: str
    url: str
    posts: bool = False
    destroys: bool = False


def mark(value: object, name: str) -> SafeString:
    """A checkbox that chooses a row."""
    return format_html(
        '<input type="checkbox" class="form-check-input row-mark" form="bulk" name="id"'
        ' value="{}" aria-label="{}">',
        value,
        _("Choose %(name)s") % {"name": name},
    )


def menu(name: str, acts: Sequence[Act]) -> SafeString | str:
    """The menu of a row; nothing where nothing can be done."""
    if not acts:
        return ""
    context: dict[str, Any] = {"name": name, "acts": acts}
    return render_to_string("components/row_menu.html", context)


Who = TypeVar("Who")
Row = TypeVar("Row")


@dataclass(frozen=True)
class Tab:
    """``route`` is the full name of a URL; its arguments are the project and the object."""

    key: str
    route: str
    label: str


class Tabs(Generic[Who, Row]):
    """What apps above have registered for the pages of one kind of row."""

    def __init__(self) -> None:
        self._more: list[Callable[[Who, Row], Sequence[Tab]]] = []

    def register(self, more: Callable[[Who, Row], Sequence[Tab]]) -> None:
        """Called once by an app above; ``more`` says what it brings for one person and row."""
        if more not in self._more:
            self._more.append(more)

    def of(self, who: Who, row: Row) -> list[Tab]:
        return [tab for more in self._more for tab in more(who, row)]


HEIGHT = 1000  # the drawing's own units, downwards; whole numbers read alike in every language
STEP, BAR = 100, 78
LINE = 12  # half of the thickness of the mark of a limit


def column_left(number: int) -> int:
    """Return where the column of this number begins."""
    return number * STEP + (STEP - BAR) // 2


def column_scale(top: float) -> float:
    """Return the units of one of what ``top`` is the most of, with room for a mark at the top."""
    return (HEIGHT - 2 * LINE) / (top or 1.0)


def limit_mark(value: float, unit: float) -> int:
    """Return the upper edge of the mark of a limit."""
    return max(0, HEIGHT - round(value * unit) - LINE)
