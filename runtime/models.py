"""The columns of intent and status, what was observed, and the routes that are wanted."""

from django.db import models
from django.db.models import F, Q

from common.ids import new_uid
from runtime.protocol import Desired, Phase, Seen

ONE_MACHINE = "local"  # the cluster that is this machine itself


class Reconcilable(models.Model):
    """Base of every row that stands for something outside the database.

    Only services write intent (``desired``, spec columns, ``generation``); only the engine
    writes status. The row is the finalizer: it goes last, by ``deleted_at``.
    """

    KIND = ""  # set by each concrete model; the word used in labels and hints

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    cluster_key = models.CharField(max_length=63, default=ONE_MACHINE)
    desired = models.CharField(
        max_length=16, choices=[(d.value, d.value) for d in Desired], default=Desired.RUNNING
    )
    generation = models.PositiveBigIntegerField(default=1)
    observed_generation = models.PositiveBigIntegerField(default=0)
    phase = models.CharField(
        max_length=16, choices=[(p.value, p.value) for p in Phase], default=Phase.PENDING
    )
    reason = models.CharField(max_length=64, blank=True, default="")
    message = models.TextField(blank=True, default="")
    phase_since = models.DateTimeField(null=True)
    external_ref = models.JSONField(default=dict, blank=True)
    next_reconcile_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)
    lease_token = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    lease_attempts = models.PositiveIntegerField(default=0)  # claims never applied (poison)
    last_observed_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True
        constraints = [
            models.CheckConstraint(
                condition=Q(observed_generation__lte=F("generation")),
                name="%(app_label)s_%(class)s_observed_lte_generation",
            )
        ]
        indexes = [
            models.Index(
                fields=["next_reconcile_at"],
                condition=Q(deleted_at__isnull=True),
                name="%(app_label).8s_%(class).10s_due",
            )
        ]

    @property
    def is_seen(self) -> bool:
        """Whether the status tells of the latest intent."""
        return self.observed_generation >= self.generation


class ObservedWorkload(models.Model):
    """The cache of what a driver saw, bulk-written by ``watch``, read by the engine."""

    cluster_key = models.CharField(max_length=63)
    uid = models.UUIDField()
    kind = models.CharField(max_length=32, blank=True, default="")
    seen = models.CharField(max_length=16, choices=[(s.value, s.value) for s in Seen])
    launch = models.PositiveIntegerField(default=0)
    version = models.BigIntegerField(default=0)
    data = models.JSONField(default=dict)  # the whole Observation
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster_key", "uid"], name="runtime_observed_once")
        ]


class Installation(models.Model):
    """What this Berth is: one row. All that it makes outside of the database carries ``uid``.

    ``proofs`` tell its secrets from another installation's without telling them. While
    ``held_why`` says something, nothing is removed for having no row: the rows may be older than
    the world.
    """

    KIND = "installation"

    class Hold(models.TextChoices):
        RESTORED = "restored"  # from a backup
        ANEW = "anew"  # an administrator went on with what was left
        OLDER = "older"  # the database had none of what its folder remembers
        QUIET = "quiet"  # long not at work: it may be a copy of earlier

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    proofs = models.JSONField(default=list)
    made_at = models.DateTimeField(auto_now_add=True)
    alive_at = models.DateTimeField(null=True)  # when it looked last for what has no row
    held_since = models.DateTimeField(null=True)
    held_why = models.CharField(max_length=16, choices=Hold.choices, blank=True, default="")
    unknown = models.JSONField(default=list)  # what was seen then without a row, some of it

    def __str__(self) -> str:
        return str(self.uid)


class Lease(models.Model):
    """One holder at a time for a named duty (sweep, watch:<cluster>, sealer), with fencing."""

    name = models.CharField(max_length=100, primary_key=True)
    holder = models.UUIDField(null=True)
    fence = models.BigIntegerField(default=0)  # grows with each change of holder
    until = models.DateTimeField(null=True)
    worked_at = models.DateTimeField(null=True)  # when a holder last did what the duty is for
    # Of a duty that comes again and again: when a turn of it began last, and how often one does.
    # Of what tells only that it is there (a gateway): when it began.
    turned_at = models.DateTimeField(null=True)
    every_s = models.FloatField(null=True)


class Route(models.Model):
    """A wanted route; compared with what the proxy has by the router loop."""

    key = models.CharField(max_length=255, unique=True)
    uid = models.UUIDField(db_index=True)  # the workload's
    target = models.CharField(max_length=255)
    created_at = models.DateTimeField(auto_now_add=True)
