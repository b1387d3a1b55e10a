"""Forms of projects. The rules are in the services; a form only names the fields."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from django import forms
from django.utils.translation import gettext_lazy as _

from common.errors import Conflict, Invalid
from common.ui.responses import show_error
from projects.choices import Role

T = TypeVar("T")


def attempt(
    form: forms.Form, act: Callable[[], T], names: Mapping[str, str] | None = None
) -> T | None:
    """Run ``act``; what the person can correct becomes an error of the form, and None.

    ``names``: a service's field → the form's, where they differ.
    """
    try:
        return act()
    except (Invalid, Conflict) as error:
        show_error(form, error, names)
        return None


class ProjectForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=120)
    slug = forms.CharField(
        label=_("Address"),
        max_length=40,
        required=False,
        help_text=_(
            "Small letters, digits and dashes. Made from the name when left empty; it stays."
        ),
    )
    description = forms.CharField(
        label=_("Description"),
        max_length=2000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
    )


class ProjectEditForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=120)
    description = forms.CharField(
        label=_("Description"),
        max_length=2000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
    )


class AddPersonForm(forms.Form):
    """One field for both: a known person is added, an unknown address is invited."""

    person = forms.CharField(
        label=_("Username or e-mail address"),
        max_length=254,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    role = forms.ChoiceField(label=_("Role"))

    def __init__(self, *args: Any, roles: Iterable[Role], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["role"].choices = [(r.value, r.label) for r in roles]  # type: ignore[attr-defined]
        self.fields["role"].initial = Role.MEMBER


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)
