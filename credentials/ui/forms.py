"""Forms of credentials. A secret is written into a form and never rendered back."""

from datetime import datetime
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from credentials.services import NAME_MAX, SECRET_MAX, USER_MAX

_PLAIN = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}


class _LoginForm(forms.Form):
    username = forms.CharField(
        label=_("User name"), max_length=USER_MAX, widget=forms.TextInput(attrs=_PLAIN)
    )
    password = forms.CharField(
        label=_("Password or token"),
        max_length=SECRET_MAX,
        widget=forms.PasswordInput(render_value=False, attrs={"autocomplete": "new-password"}),
        help_text=_("Best a token that may only pull. Nobody can read it here again."),
    )
    expires_on = forms.DateField(
        label=_("Good until"),
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text=_("When the token runs out; two weeks before, it is marked."),
    )

    @property
    def expires_at(self) -> datetime | None:
        """The end of that day, by the reader's clock."""
        from django.utils import timezone

        day = self.cleaned_data.get("expires_on")
        if day is None:
            return None
        end = datetime.combine(day, datetime.max.time().replace(microsecond=0))
        return timezone.make_aware(end)


class RegistryForm(_LoginForm):
    name = forms.CharField(label=_("Name"), max_length=NAME_MAX)
    host = forms.CharField(
        label=_("Registry"),
        max_length=255,
        widget=forms.TextInput(attrs={**_PLAIN, "placeholder": "ghcr.io"}),
        help_text=_("The host, as images of it begin: ghcr.io, registry.example.com:5000."),
    )
    field_order = ("name", "host", "username", "password", "expires_on")


class RotateForm(_LoginForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password"].label = _("New password or token")
