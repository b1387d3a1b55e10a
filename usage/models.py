"""Who held what from when to when, exactly. The base of every report and every bill."""

from django.db import models


class Interval(models.Model):
    """One launch of one workload. Ids and words, not foreign keys: it outlives them all.

    ``ended_at`` None: still running. A launch has one row, whatever is repeated or restarted.
    """

    uid = models.UUIDField()  # of the workload
    launch = models.PositiveIntegerField()
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
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    end_reason = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["uid", "launch"], name="usage_interval_once"),
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
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.uid} #{self.launch}"


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
