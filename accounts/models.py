"""People and the tokens they make. Roles inside a project are in ``projects``."""

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, PermissionsMixin, UserManager
from django.core.validators import RegexValidator
from django.db import models
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _

from common.clock import now
from common.ids import new_uid


class PlatformRole(models.TextChoices):
    NONE = "", _("User")
    OPERATOR = "operator", _("Operator")
    AUDITOR = "auditor", _("Auditor")


class Theme(models.TextChoices):
    AUTO = "auto", _("Like the system")
    LIGHT = "light", _("Light")
    DARK = "dark", _("Dark")


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
    # By the identity provider's no, not by an operator: its next yes lifts it (services.refusals).
    disabled_by_provider = models.BooleanField(default=False, db_default=False)
    # Part of every session's hash: raising it ends all sessions of the person at once.
    session_epoch = models.PositiveIntegerField(default=0)
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
    def reads_in(self) -> str:
        """The language of what is written for this person outside a page."""
        return self.language or settings.LANGUAGE_CODE

    @property
    def is_refused(self) -> bool:
        """Kept out by the identity provider, until it says yes again."""
        return self.disabled_by_provider and not self.is_active

    @property
    def is_operator(self) -> bool:
        return self.is_active and self.platform_role == PlatformRole.OPERATOR

    @property
    def is_auditor(self) -> bool:
        return self.is_active and self.platform_role in {
            PlatformRole.OPERATOR,
            PlatformRole.AUDITOR,
        }

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        # Django's own hook, called once with each secret of SECRET_KEY_FALLBACKS as well.
        return salted_hmac(
            "accounts.User.session",
            f"{self.password}:{self.session_epoch}",
            secret=secret,
            algorithm="sha256",
        ).hexdigest()


class ProviderGrant(models.Model):
    """One refresh token per person, by which the identity provider is asked about him.

    Only while ``BERTH_OIDC_REFUSED`` is ``person`` (accounts.oidc_grants). Leaves with the link to
    the identity. Without a token it says why the person can't be asked about.
    """

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="provider_grant")
    # No constraint: a process of the version before unlinks an identity without this row.
    account = models.ForeignKey(
        "socialaccount.SocialAccount",
        on_delete=models.CASCADE,
        related_name="+",
        db_constraint=False,
    )
    refresh = models.TextField(blank=True, default="")  # sealed
    until = models.DateTimeField()  # sessions last as long, and a little longer
    asked_at = models.DateTimeField(db_index=True)  # also who asks: its answer is for this time
    # A question was sent whose answer nobody knows: the token may have been used up by it.
    is_unsure = models.BooleanField(default=False)
    groups_at = models.DateTimeField(null=True)  # when they were handed on
    refuse_at = models.DateTimeField(null=True)  # kept out from then on, unless he signs in
    said = models.CharField(max_length=200, blank=True, default="")  # the provider, as it refused

    def __str__(self) -> str:
        return str(self.account_id)


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

    KIND = "token"

    class Meta:
        indexes = [models.Index(fields=["user", "-id"], name="accounts_token_of_user")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def is_live(self) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now())


class SshKey(models.Model):
    """A public key of a person, for the SSH gateway."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="ssh_keys")
    KIND = "ssh-key"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
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


class DeviceLogin(models.Model):
    """A sign-in that a terminal asked for and a person approves in the browser.

    Both codes are kept as hashes; the row is used up by the poll that gets the token.
    """

    KIND = "device-login"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    device_digest = models.CharField(max_length=64, unique=True)
    user_digest = models.CharField(max_length=64, unique=True)
    client = models.CharField(max_length=120, blank=True, default="")  # as the terminal says
    ip = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    polled_at = models.DateTimeField(null=True)
    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="+")
    read_only = models.BooleanField(default=False)
    days = models.PositiveIntegerField(default=30)  # life of the token that will be made
    approved_at = models.DateTimeField(null=True)
    denied_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.client or str(self.uid)
