"""People and the tokens they make. Roles inside a project are in ``projects``."""

from django.contrib.auth.models import AbstractBaseUser, PermissionsMixin, UserManager
from django.core.validators import RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from accounts.choices import PlatformRole, Theme
from common.ids import new_uid

username_validator = RegexValidator(
    r"\A[a-zA-Z0-9][a-zA-Z0-9._@+-]{0,63}\Z",
    _("Up to 64 letters, digits and . _ @ + -; the first one a letter or a digit."),
)


class User(AbstractBaseUser, PermissionsMixin):
    """A person. ``is_active`` False cuts everything within a minute (accounts.services)."""

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    username = models.CharField(max_length=64, unique=True, validators=[username_validator])
    email = models.EmailField(_("e-mail"), blank=True, default="")
    display_name = models.CharField(_("name"), max_length=120, blank=True, default="")
    platform_role = models.CharField(
        max_length=16, choices=PlatformRole.choices, default=PlatformRole.NONE, blank=True
    )
    language = models.CharField(max_length=8, blank=True, default="")
    timezone = models.CharField(max_length=64, blank=True, default="")
    theme = models.CharField(max_length=8, choices=Theme.choices, default=Theme.AUTO)
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField(default=False)  # unused; allauth and Django look for it
    disabled_at = models.DateTimeField(null=True)
    date_joined = models.DateTimeField(auto_now_add=True)

    objects = UserManager()

    USERNAME_FIELD = "username"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS = ["email"]

    def __str__(self) -> str:
        return self.username

    @property
    def label(self) -> str:
        return self.display_name or self.username

    @property
    def is_operator(self) -> bool:
        return self.is_active and self.platform_role == PlatformRole.OPERATOR

    @property
    def is_auditor(self) -> bool:
        return self.is_active and self.platform_role in {
            PlatformRole.OPERATOR,
            PlatformRole.AUDITOR,
        }


class ApiToken(models.Model):
    """A key for scripts. Only its SHA-256 is kept; the prefix is shown to recognise it."""

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    # Permission values of projects.access and the platform scopes; empty = all the user may do
    scopes = models.JSONField(default=list, blank=True)
    read_only = models.BooleanField(default=False)
    project_uids = models.JSONField(default=list, blank=True)  # empty = every project
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True)
    last_used_ip = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class SshKey(models.Model):
    """A public key of a person, for the SSH gateway."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="ssh_keys")
    name = models.CharField(max_length=80)
    public_key = models.TextField()
    fingerprint = models.CharField(max_length=80)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "fingerprint"], name="accounts_sshkey_once_per_user"
            )
        ]

    def __str__(self) -> str:
        return self.name
