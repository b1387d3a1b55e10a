"""What the Hub side remembers. Secrets are kept as SHA-256 digests only."""

from django.conf import settings
from django.db import models
from django.db.models import Q


class Client(models.Model):
    """The OAuth client of one workload; its secret changes with every launch."""

    uid = models.UUIDField(unique=True)  # the workload's, or that of one port of it
    # Set for a port: the workload it belongs to, which decides who may come in.
    parent_uid = models.UUIDField(null=True, db_index=True)
    short_id = models.CharField(max_length=40, unique=True)
    client_id = models.CharField(max_length=48, unique=True)  # also the name of a cookie
    secret_digest = models.CharField(max_length=64)
    redirect_uris = models.JSONField(default=list)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    project = models.ForeignKey("projects.Project", on_delete=models.CASCADE, related_name="+")
    launch = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True)  # of this launch; a later one opens it again

    def __str__(self) -> str:
        return self.client_id


class Code(models.Model):
    """What a browser carries from the portal to a workload: once, within a minute."""

    digest = models.CharField(max_length=64, unique=True)
    client = models.ForeignKey(Client, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    launch = models.PositiveIntegerField()
    redirect_uri = models.CharField(max_length=500)
    code_challenge = models.CharField(max_length=128, blank=True, default="")
    session_key = models.CharField(max_length=40)
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True)


class TokenKind(models.TextChoices):
    USER = "user"  # a visitor at one workload
    SERVER = "server"  # the workload itself, one launch
    SERVICE = "service"  # Berth asking one workload for its kernels


class NotebookToken(models.Model):
    """A key to one workload. It identifies, reaches that server, and opens nothing else.

    ``session_key`` names the portal session that a visitor's token came from: a token is worth
    as much as that session. It is stored as it is because ``django_session`` holds the same
    value as its key, in the same database.
    """

    digest = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=8, choices=TokenKind.choices)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    uid = models.UUIDField(db_index=True)  # the workload's
    launch = models.PositiveIntegerField()
    session_key = models.CharField(max_length=40, blank=True, default="", db_index=True)
    code = models.ForeignKey(Code, null=True, on_delete=models.SET_NULL, related_name="tokens")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)  # null: with the launch
    revoked_at = models.DateTimeField(null=True)
    # When the proxy has to cut what this token still holds open; null: nothing to do.
    cut_due_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["cut_due_at"], condition=Q(cut_due_at__isnull=False), name="hubapi_cut_due"
            )
        ]


class Consent(models.Model):
    """A visitor knows whose workspace it is; asked again when the owner changes."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    uid = models.UUIDField()
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    given_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "uid"], name="hubapi_consent_once")]


class Activity(models.Model):
    """What is known of the use of one workload: pushed by it and asked of it."""

    uid = models.UUIDField(unique=True)
    pushed_at = models.DateTimeField(null=True)  # when it last reported: a heartbeat
    last_activity = models.DateTimeField(null=True)  # newest act it or its kernels tell of
    page_at = models.DateTimeField(null=True)  # when a page of it last told whether it is used
    # when a kernel, or a terminal or SSH by the gate, was last seen at work
    last_busy_at = models.DateTimeField(null=True)
    polled_at = models.DateTimeField(null=True)  # last answered question
    failed_at = models.DateTimeField(null=True)  # last question without an answer
    kernels = models.PositiveIntegerField(default=0)
    busy_kernels = models.PositiveIntegerField(default=0)
    terminals = models.PositiveIntegerField(default=0)
    connections = models.PositiveIntegerField(default=0)
