"""Samples of use, their roll-ups by minute and by hour, and how far those are.

``uid`` is the workload's; of a device that nobody held, the cluster's. ``device`` "" is the
workload itself (of its devices together: known only where each of them is), else one device while
that workload held it. None is unknown, never 0.
"""

from __future__ import annotations

from datetime import timedelta

from django.db import models

DEVICE_LENGTH = 200
FRESH = timedelta(minutes=3)  # the longest that a measurement of use counts

# What is measured. Rates are bytes a second, utilisation is percent.
FIELDS = ("cpu_milli", "memory_mib", "rx_rate", "tx_rate", "gpu_utilisation", "gpu_memory_mib")


class Sample(models.Model):
    """What one workload, or one device, did at a moment.

    ``shared``: others use the device too, and the figure is of the device. ``simulated``: there is
    no such device.
    """

    uid = models.UUIDField()
    device = models.CharField(max_length=DEVICE_LENGTH, blank=True, default="")
    at = models.DateTimeField(db_index=True)
    cpu_milli = models.PositiveIntegerField(null=True)
    memory_mib = models.PositiveIntegerField(null=True)
    rx_rate = models.FloatField(null=True)
    tx_rate = models.FloatField(null=True)
    rx_bytes = models.PositiveBigIntegerField(null=True)  # as the source counts them
    tx_bytes = models.PositiveBigIntegerField(null=True)
    gpu_utilisation = models.FloatField(null=True)
    gpu_memory_mib = models.PositiveIntegerField(null=True)
    shared = models.BooleanField(default=False)
    simulated = models.BooleanField(default=False)

    class Meta:
        indexes = [models.Index(fields=["uid", "device", "at"], name="metrics_samples")]

    def __str__(self) -> str:
        return f"{self.uid} {self.device} {self.at}"


class RollUp(models.Model):
    """The samples of one span, which begins at ``at``: of each figure how many there were, their
    sum, the lowest and the highest. So a mean of any spans is exact.
    """

    uid = models.UUIDField()
    device = models.CharField(max_length=DEVICE_LENGTH, blank=True, default="")
    at = models.DateTimeField(db_index=True)
    samples = models.PositiveIntegerField()
    shared = models.PositiveIntegerField()  # how many of them are of a shared device
    simulated = models.PositiveIntegerField()

    cpu_milli_count = models.PositiveIntegerField()
    cpu_milli_sum = models.FloatField(null=True)
    cpu_milli_min = models.FloatField(null=True)
    cpu_milli_max = models.FloatField(null=True)
    memory_mib_count = models.PositiveIntegerField()
    memory_mib_sum = models.FloatField(null=True)
    memory_mib_min = models.FloatField(null=True)
    memory_mib_max = models.FloatField(null=True)
    rx_rate_count = models.PositiveIntegerField()
    rx_rate_sum = models.FloatField(null=True)
    rx_rate_min = models.FloatField(null=True)
    rx_rate_max = models.FloatField(null=True)
    tx_rate_count = models.PositiveIntegerField()
    tx_rate_sum = models.FloatField(null=True)
    tx_rate_min = models.FloatField(null=True)
    tx_rate_max = models.FloatField(null=True)
    gpu_utilisation_count = models.PositiveIntegerField()
    gpu_utilisation_sum = models.FloatField(null=True)
    gpu_utilisation_min = models.FloatField(null=True)
    gpu_utilisation_max = models.FloatField(null=True)
    gpu_memory_mib_count = models.PositiveIntegerField()
    gpu_memory_mib_sum = models.FloatField(null=True)
    gpu_memory_mib_min = models.FloatField(null=True)
    gpu_memory_mib_max = models.FloatField(null=True)

    class Meta:
        abstract = True
        constraints = [
            models.UniqueConstraint(fields=["uid", "device", "at"], name="metrics_%(class)s_once")
        ]

    def __str__(self) -> str:
        return f"{self.uid} {self.device} {self.at}"


class MinuteSample(RollUp):
    """Samples of a minute."""


class HourSample(RollUp):
    """Samples of an hour."""


class Progress(models.Model):
    """One row: the last sample that each roll-up holds.

    Who adds samples or rolls them up holds the row's lock. So ids are committed in their order,
    and none of them is passed over.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    minute = models.PositiveBigIntegerField(default=0)
    hour = models.PositiveBigIntegerField(default=0)


class Quiet(models.Model):
    """Since when a workload's processor and GPUs do nothing, as far as that was measured without a
    gap. ``known_at``: when all of them were measured last.
    """

    uid = models.UUIDField(primary_key=True)
    known_at = models.DateTimeField(db_index=True)
    since = models.DateTimeField()


class DeviceReading(models.Model):
    """What is known of one device now, held or not; one row for each.

    ``device`` is its own name where a driver or an exporter tells it, else its place on the node.
    ``uid``: the work that holds it, since ``since``; ``foreign``: a pod does that is not ours.
    ``at``: when its figures were measured, None: never. ``seen_at``: when it was last there.
    """

    cluster_key = models.CharField(max_length=63)
    node = models.CharField(max_length=253, blank=True, default="")  # "": the machine itself
    device = models.CharField(max_length=DEVICE_LENGTH)
    flavor = models.CharField(max_length=63, blank=True, default="")  # "": not known
    healthy = models.BooleanField(default=True)
    uid = models.UUIDField(null=True)
    foreign = models.BooleanField(default=False)
    since = models.DateTimeField(null=True)
    utilisation = models.FloatField(null=True)
    memory_used_mib = models.PositiveIntegerField(null=True)
    memory_mib = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField()
    shared = models.BooleanField(default=False)
    simulated = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster_key", "device"], name="metrics_reading_once")
        ]

    def __str__(self) -> str:
        return f"{self.cluster_key} {self.device}"
