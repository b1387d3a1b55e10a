"""Who held what from when to when, exactly. The base of every report and every bill."""

from enum import StrEnum

from django.db import models

# Why an interval ended whose launch went on in another size.
RESIZED = "resized"


class Interval(models.Model):
    """One launch of one workload. Ids and words, not foreign keys: it outlives them all.

    ``ended_at`` None: still running. A launch has one row, whatever is repeated or restarted, and
    one more for each other size that it has meanwhile, which begins where the one before ends.
    """

    uid = models.UUIDField()  # of the workload
    launch = models.PositiveIntegerField()
    part = models.PositiveIntegerField(default=0, db_default=0)
    kind = models.CharField(max_length=32)
    name = models.CharField(max_length=120, blank=True, default="")
    project_uid = models.UUIDField()
    project_slug = models.CharField(max_length=40)
    owner_uid = models.UUIDField()
    owner_name = models.CharField(max_length=64)
    cluster_key = models.CharField(max_length=63)
    gpus = models.PositiveIntegerField(default=0)
    flavor = models.CharField(max_length=63, blank=True, default="")
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    asked_at = models.DateTimeField(null=True)  # it was wanted
    placed_at = models.DateTimeField(null=True)  # its devices were given; None: at its start
    started_at = models.DateTimeField()
    ready_at = models.DateTimeField(null=True)  # it answered for the first time
    ended_at = models.DateTimeField(null=True)
    end_reason = models.CharField(max_length=64, blank=True, default="")
    # [[milliseconds since 1970, word of Mark], …]: what it did from when on, since its place
    marks = models.JSONField(default=list, db_default=[])

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["uid", "launch", "part"], name="usage_interval_part_once"
            ),
            models.CheckConstraint(
                condition=models.Q(ended_at__isnull=True)
                | models.Q(ended_at__gte=models.F("started_at")),
                name="usage_interval_ends_after_start",
            ),
        ]
        indexes = [
            models.Index(fields=["project_uid", "started_at"], name="usage_by_project"),
            models.Index(fields=["owner_uid", "started_at"], name="usage_by_owner"),
            models.Index(fields=["started_at"], name="usage_by_start"),
            models.Index(
                fields=["uid"], condition=models.Q(ended_at__isnull=True), name="usage_open"
            ),
            # the end of each launch, without those of the sizes that it had before
            models.Index(
                fields=["uid", "ended_at"],
                condition=~models.Q(end_reason=RESIZED),
                name="usage_end_of_launch",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.uid} #{self.launch}"


class Mark(StrEnum):
    """What a launch that holds its devices does from a moment on."""

    START = "start"
    PULL = "pull"  # its image is fetched
    RUN = "run"
    DOWN = "down"  # it was ready, ended by itself and is started again
    LOST = "lost"  # its place was taken from it, and it begins anew
    WAIT = "wait"  # it has no place: its cluster's queue, or its scheduler, holds it back
    STOP = "stop"


class Wait(models.Model):
    """How long one launch was wanted and had no devices. ``ended_at`` None: it waits still.

    It ends when the place is given or the wish withdrawn, whichever is first.
    """

    uid = models.UUIDField()
    launch = models.PositiveIntegerField()
    kind = models.CharField(max_length=32)
    project_uid = models.UUIDField()
    project_slug = models.CharField(max_length=40)
    owner_uid = models.UUIDField()
    owner_name = models.CharField(max_length=64)
    cluster_key = models.CharField(max_length=63)
    gpus = models.PositiveIntegerField()
    flavor = models.CharField(max_length=255, blank=True, default="")  # as asked: "a,b" is any of
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=64, blank=True, default="")  # why it waited last
    placed = models.BooleanField(default=False)  # it got what it waited for

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["uid", "launch"], name="usage_wait_once"),
            models.CheckConstraint(
                condition=models.Q(ended_at__isnull=True)
                | models.Q(ended_at__gte=models.F("began_at")),
                name="usage_wait_ends_after_it_began",
            ),
        ]
        indexes = [
            models.Index(fields=["began_at"], name="usage_wait_by_begin"),
            models.Index(
                fields=["uid"], condition=models.Q(ended_at__isnull=True), name="usage_wait_open"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.uid} #{self.launch}"


class LateFact(models.Model):
    """A span of the past of which something was learned after its hours may have been closed."""

    since = models.DateTimeField()
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.since} to {self.until}"


class LedgerProgress(models.Model):
    """One row: up to when hours are closed. Its lock is that of all who write the ledger."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.until)


class LedgerRow(models.Model):
    """Where GPU time went, in GPU-seconds.

    Of work: ``attached`` is the sum of the nine causes from ``computing`` on. What nobody held has
    neither project nor owner: there ``supply`` is what was in service of a kind on a cluster. All
    that was attached of it, and ``fragmented``, ``held_back`` and ``unasked``, add up to it; what
    was out of service, or held by others, is beside it.
    """

    cluster_key = models.CharField(max_length=63)
    flavor = models.CharField(max_length=255, blank=True, default="")
    project_uid = models.UUIDField(null=True)
    project_slug = models.CharField(max_length=40, blank=True, default="")
    owner_uid = models.UUIDField(null=True)
    owner_name = models.CharField(max_length=64, blank=True, default="")
    kind = models.CharField(max_length=32, blank=True, default="")

    supply = models.FloatField(default=0)
    waiting = models.FloatField(default=0)
    attached = models.FloatField(default=0)
    measured = models.FloatField(default=0)  # the part of ``attached`` of which use is known
    utilised = models.FloatField(default=0)  # mean utilisation of that, times its length

    computing = models.FloatField(default=0)
    underused = models.FloatField(default=0)  # of busy minutes the part that was not utilised
    idle = models.FloatField(default=0)
    unknown = models.FloatField(default=0)
    pull = models.FloatField(default=0)
    start = models.FloatField(default=0)
    crash = models.FloatField(default=0)
    repeated = models.FloatField(default=0)
    stop = models.FloatField(default=0)

    fragmented = models.FloatField(default=0)
    held_back = models.FloatField(default=0)
    unasked = models.FloatField(default=0)
    out = models.FloatField(default=0)
    others = models.FloatField(default=0)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.project_slug} {self.owner_name} {self.flavor} on {self.cluster_key}"


class LedgerHour(LedgerRow):
    """One hour of one person's work of a kind, in a project, on a kind of GPU."""

    hour = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["hour"], name="usage_ledger_hour"),
            models.Index(fields=["project_uid", "hour"], name="usage_ledger_project"),
        ]


class Grain(models.IntegerChoices):
    """How finely the rows of a day tell whose it was. Each grain has all of the day."""

    ALL = 0
    PROJECT = 1
    OWNER = 2


class LedgerDay(LedgerRow):
    """The hours of a day (UTC) together, once in each grain."""

    day = models.DateField()
    grain = models.PositiveSmallIntegerField(choices=Grain.choices)

    class Meta:
        indexes = [
            models.Index(fields=["grain", "day"], name="usage_ledger_day"),
            models.Index(fields=["project_uid", "grain", "day"], name="usage_ledger_of_project"),
            models.Index(fields=["owner_uid", "grain", "day"], name="usage_ledger_of_owner"),
        ]


class NodeDay(models.Model):
    """One node on one day (UTC), in GPU-seconds: a look stands for the time since the last one.

    Of its devices: in service and not held by others, held by work, of which of those use is
    known, and their utilisation times that length. A node that nobody looked at has no time.
    """

    cluster_key = models.CharField(max_length=63)
    node = models.CharField(max_length=253, blank=True, default="")  # "": the machine itself
    day = models.DateField()
    until = models.DateTimeField()  # when somebody looked last
    supply = models.FloatField(default=0)
    attached = models.FloatField(default=0)
    measured = models.FloatField(default=0)
    utilised = models.FloatField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["day", "cluster_key", "node"], name="usage_node_once")
        ]

    def __str__(self) -> str:
        return f"{self.cluster_key}/{self.node} on {self.day}"


class Digest(models.Model):
    """A week that somebody was told of: once, whatever is killed or repeated."""

    week = models.DateField()  # its Monday
    about = models.CharField(max_length=36)  # the uid of a project; "" is the whole platform

    class Meta:
        constraints = [models.UniqueConstraint(fields=["week", "about"], name="usage_digest_once")]

    def __str__(self) -> str:
        return f"{self.week} {self.about}"


class CapacityHour(models.Model):
    """One kind of GPU on one cluster in one hour: sums over ``samples``, and peaks.

    ``flavor`` '' is what waits and takes any kind; it has no supply of its own.
    """

    cluster_key = models.CharField(max_length=63)
    flavor = models.CharField(max_length=63, blank=True, default="")
    hour = models.DateTimeField()
    samples = models.PositiveIntegerField(default=0)
    supply = models.PositiveBigIntegerField(default=0)
    attached = models.PositiveBigIntegerField(default=0)
    waiting = models.PositiveBigIntegerField(default=0)
    # beside ``supply``: not in service, and held by what is not Berth's
    out = models.PositiveBigIntegerField(default=0, db_default=0)
    others = models.PositiveBigIntegerField(default=0, db_default=0)
    # of what is free: in pieces too small for what waits, and kept back from what waits by rules
    fragmented = models.PositiveBigIntegerField(default=0, db_default=0)
    held_back = models.PositiveBigIntegerField(default=0, db_default=0)
    peak = models.PositiveIntegerField(default=0)
    peak_waiting = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "cluster_key", "flavor"], name="usage_capacity_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.flavor} on {self.cluster_key} at {self.hour:%Y-%m-%d %H}"
