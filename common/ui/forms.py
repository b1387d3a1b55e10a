"""Forms look the same everywhere: Django's own renderer, one field template.

Widgets get Tabler's classes here, so a form class never names a style.
"""

from typing import Any

from django import forms
from django.forms.boundfield import BoundField
from django.forms.renderers import TemplatesSetting
from django.utils.safestring import SafeString


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
