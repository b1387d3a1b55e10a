"""Forms of sign-in and of the settings pages. Rules are in the services."""

from typing import Any

from allauth.account import forms as allauth_forms
from allauth.core import context
from django import forms
from django.conf import settings
from django.utils.translation import get_language_info, gettext
from django.utils.translation import gettext_lazy as _

from accounts import hooks, timezones
from accounts.models import Theme
from accounts.principal import known_scopes
from accounts.services.sessions import DAYS
from common.errors import Invalid

MAX_LOGIN = 254


def check_login(value: str) -> str:
    """Refuse what can be nobody's name before it reaches a log, a cache key or the database."""
    if len(value) > MAX_LOGIN or not value.isprintable():
        raise Invalid(gettext("This can't be a username or an e-mail address."))
    return value


class LoginForm(allauth_forms.LoginForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        login = self.fields["login"]
        login.label = _("Username or e-mail")
        login.widget.attrs = {"autocomplete": "username", "autofocus": True}
        self.fields["password"].widget.attrs.pop("placeholder", None)
        self.fields["password"].help_text = ""
        if "remember" in self.fields:
            self.fields["remember"].label = _("Stay signed in for two weeks")

    def full_clean(self) -> None:
        if self.is_bound:  # before any field or validator has a look
            check_login(str(self.data.get(self.add_prefix("login"), "")).strip())
        super().full_clean()


class SignupForm(allauth_forms.SignupForm):
    """Sign-up by invitation is for the invited address only."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.permit = hooks.permit_of(context.request)
        for name in ("username", "email", "password1", "password2"):
            self.fields[name].widget.attrs.pop("placeholder", None)
        if self.permit is not None:
            self.fields["email"].initial = self.permit.email
            self.fields["email"].widget.attrs["readonly"] = True

    def clean_email(self) -> str:
        if self.permit is not None:
            given = str(self.cleaned_data["email"]).lower()
            if given != self.permit.email.lower():
                raise forms.ValidationError(
                    _("The invitation is for %(email)s.") % {"email": self.permit.email}
                )
        return str(super().clean_email())


class ResetPasswordForm(allauth_forms.ResetPasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].label = _("E-mail")
        self.fields["email"].widget.attrs.pop("placeholder", None)


class ProfileForm(forms.Form):
    display_name = forms.CharField(
        label=_("Name"),
        max_length=120,
        required=False,
        help_text=_("Shown to members of your projects instead of the username."),
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
    )
    language = forms.ChoiceField(label=_("Language"), required=False)
    timezone = timezones.TimeZoneField(
        label=_("Time zone"),
        required=False,
        help_text=_("Times on all pages are shown in this zone; UTC when left empty."),
    )
    theme = forms.ChoiceField(label=_("Theme"), choices=Theme.choices)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = [(code, get_language_info(code)["name_local"]) for code, _name in settings.LANGUAGES]
        self.fields["language"].choices = [("", _("As the browser asks")), *own]  # type: ignore[attr-defined]


class TokenForm(forms.Form):
    DAYS = (
        (7, _("7 days")),
        (30, _("30 days")),
        (90, _("90 days")),
        (180, _("half a year")),
        (365, _("one year")),
    )
    name = forms.CharField(
        label=_("Name"), max_length=80, help_text=_("What uses it, such as “nightly training”.")
    )
    days = forms.TypedChoiceField(label=_("Expires after"), choices=DAYS, coerce=int, initial=90)
    read_only = forms.BooleanField(label=_("May only read"), required=False)
    project_uids = forms.MultipleChoiceField(
        label=_("Only these projects"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_(
            "Nothing chosen: every project of yours, also later ones. With a choice the token "
            "opens nothing of your account and none of your own credentials."
        ),
    )
    scopes = forms.MultipleChoiceField(
        label=_("Only these rights"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Nothing chosen: whatever your roles allow."),
    )

    def __init__(self, *args: Any, projects: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["project_uids"].choices = projects  # type: ignore[attr-defined]
        if not projects:
            del self.fields["project_uids"]
        self.fields["scopes"].choices = list(known_scopes().items())  # type: ignore[attr-defined]


class SshKeyForm(forms.Form):
    public_key = forms.CharField(
        label=_("Public key"),
        max_length=8192,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "autocomplete": "off"}),
        help_text=_("One line such as “ssh-ed25519 AAAA… me@laptop”, from the .pub file."),
    )
    name = forms.CharField(
        label=_("Name"),
        max_length=80,
        required=False,
        help_text=_("Empty: the comment at the end of the key."),
    )


class DeviceForm(forms.Form):
    code = forms.CharField(
        label=_("Code"),
        max_length=16,
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "characters"}),
        help_text=_("The terminal shows it, such as BCDF-GHJK."),
    )


class DeviceApproveForm(forms.Form):
    DAYS = tuple((d, _("%d days") % d) for d in DAYS)
    code = forms.CharField(max_length=16, widget=forms.HiddenInput)
    days = forms.TypedChoiceField(
        label=_("The terminal stays signed in for"), choices=DAYS, coerce=int, initial=30
    )
    read_only = forms.BooleanField(label=_("It may only read"), required=False)
