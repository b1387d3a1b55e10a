"""Where work can run: a cluster (one machine counts as one), its kinds of GPU, its devices."""

from django.db import models

from common.ids import new_uid


class Cluster(models.Model):
    """``key`` is what workloads name; ``driver`` picks the code (runtime.drivers registry)."""

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    key = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=120)
    driver = models.CharField(max_length=32, default="local")
    reachable = models.BooleanField(default=False)
    version = models.CharField(max_length=64, blank=True, default="")
    message = models.TextField(blank=True, default="")
    capacity = models.JSONField(default=dict, blank=True)  # cpu_milli, memory_mib
    isolation = models.JSONField(default=dict, blank=True)  # what the driver can enforce
    checked_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Flavor(models.Model):
    """A kind of GPU as data: name people use, how devices are recognised, price."""

    name = models.CharField(max_length=63, unique=True)  # e.g. "h100-80"
    label = models.CharField(max_length=120)
    match = models.CharField(max_length=200)  # substring of the device's name, case-insensitive
    memory_mib = models.PositiveIntegerField(default=0)
    price_per_hour = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    position = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return self.label


class Device(models.Model):
    """One GPU as last reported. Utilisation None = unknown, never 0 by default."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="devices")
    uuid = models.CharField(max_length=80, unique=True)
    index = models.PositiveIntegerField(default=0)
    name = models.CharField(max_length=120)
    flavor = models.ForeignKey(Flavor, null=True, on_delete=models.SET_NULL)
    memory_mib = models.PositiveIntegerField(default=0)
    memory_used_mib = models.PositiveIntegerField(null=True)
    utilisation = models.PositiveIntegerField(null=True)
    healthy = models.BooleanField(default=True)
    seen_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name} {self.index}"


class Claim(models.Model):
    """A place in the local queue, then the hold on what it got. One machine only.

    ``granted_at`` None = waiting. A device belongs to at most one claim (Hold.device unique).
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="claims")
    workload_uid = models.UUIDField(unique=True)
    workload_kind = models.CharField(max_length=32)
    project_uid = models.UUIDField()
    owner_uid = models.UUIDField(null=True)
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    gpus = models.PositiveIntegerField(default=0)
    gpu_flavor = models.CharField(max_length=63, blank=True, default="")
    asked_at = models.DateTimeField()
    granted_at = models.DateTimeField(null=True)


class Hold(models.Model):
    """An exclusive assignment of one device to one claim."""

    claim = models.ForeignKey(Claim, on_delete=models.CASCADE, related_name="holds")
    device = models.OneToOneField(Device, on_delete=models.PROTECT, related_name="hold")
