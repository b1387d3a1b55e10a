"""The drivers by name, as far as they are known without one: what each one's clusters are like."""

from collections.abc import Mapping
from typing import Any, Self
from uuid import UUID

from django.db import models
from django.utils.translation import gettext as _

from common.ids import new_uid
from runtime.capabilities.clusters import Traits
from runtime.drivers.kubernetes import names
from runtime.models import ONE_MACHINE
from runtime.spec import Resources

KUBERNETES = "kubernetes"
TRAITS: Mapping[str, Traits] = {
    "fake": Traits(),
    "local": Traits(),
    KUBERNETES: Traits(runs_images=True, has_tenants=True, names=names),
}
RUN_IMAGES = frozenset(name for name, traits in TRAITS.items() if traits.runs_images)
HAVE_TENANTS = frozenset(name for name, traits in TRAITS.items() if traits.has_tenants)


# Where work can run: a cluster (one machine counts as one), its kinds of GPU, its devices.


def label_of(key: str, name: str) -> str:
    """Return the name of a cluster for people; that of this machine is a word of ours."""
    return _(name) if key == ONE_MACHINE else name


class ClusterQuerySet(models.QuerySet["Cluster"]):
    """Clusters by what their drivers can do."""

    def running_images(self) -> Self:
        return self.filter(driver__in=RUN_IMAGES)

    def one_machine(self) -> Self:
        return self.exclude(driver__in=RUN_IMAGES)

    def with_tenants(self) -> Self:
        return self.filter(driver__in=HAVE_TENANTS)


class Cluster(models.Model):
    """``key`` is what workloads name; ``driver`` picks the code (runtime.drivers registry).

    ``sealed_kubeconfig`` is opened only where the private key is: worker and gate.
    """

    KIND = "cluster"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    key = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=120)
    driver = models.CharField(max_length=32, default="local")
    reachable = models.BooleanField(default=False)
    version = models.CharField(max_length=64, blank=True, default="")
    message = models.TextField(blank=True, default="")
    capacity = models.JSONField(default=dict, blank=True)  # cpu_milli, memory_mib
    isolation = models.JSONField(default=dict, blank=True)  # what the driver can enforce
    # what of runtime.training.OPERATORS is there
    operators = models.JSONField(default=list, db_default=[], blank=True)
    checked_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    options = models.JSONField(default=dict, blank=True)  # clusters.options.ClusterOptions
    sealed_kubeconfig = models.TextField(blank=True, default="")
    server = models.CharField(max_length=255, blank=True, default="")  # shown; no secret
    fingerprint = models.CharField(max_length=95, blank=True, default="")  # SHA-256 of its CA
    attached_by = models.UUIDField(null=True)
    attached_at = models.DateTimeField(null=True)
    enabled = models.BooleanField(default=True)  # False: nobody talks to it
    drain = models.BooleanField(default=False)  # what runs may end; nothing starts
    revision = models.PositiveIntegerField(default=1)  # grows when a driver must be made anew
    kinds = models.JSONField(default=dict, blank=True)  # flavor → total, nodes, largest; by nodes
    # node → resource → devices that pods hold which Berth did not make
    held = models.JSONField(null=True)
    # uid of its namespace kube-system: the same by whatever address it is reached
    identity = models.CharField(max_length=63, blank=True, default="", db_default="")
    checks_asked_at = models.DateTimeField(null=True)
    checks_ran_at = models.DateTimeField(null=True)
    checks_due_at = models.DateTimeField(null=True)  # again by then, where asking came to nothing

    objects = ClusterQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        """The name as people read it."""
        return label_of(self.key, self.name)

    @property
    def traits(self) -> Traits:
        """What its driver can do, known in every process."""
        return TRAITS.get(self.driver, Traits())

    @property
    def runs_images(self) -> bool:
        return self.traits.runs_images

    @property
    def is_attached(self) -> bool:
        """Attached by an operator, so that he may change and detach it."""
        return self.attached_at is not None


class Flavor(models.Model):
    """A kind of GPU as data: name people use, how devices are recognised, price.

    ``node_labels``: label → accepted values; a node of this kind carries one value of each and
    offers ``resource``. Empty: not recognised on clusters. ``use_source``: where figures of use
    come from (``runtime.use_sources``); empty: as is known of the resource.
    """

    KIND = "flavor"

    name = models.CharField(max_length=63, unique=True)  # e.g. "h100-80"
    label = models.CharField(max_length=120)
    # substring of the device's name, case-insensitive; one machine only
    match = models.CharField(max_length=200, blank=True, default="")
    resource = models.CharField(max_length=120, default="nvidia.com/gpu")
    node_labels = models.JSONField(default=dict, blank=True)
    use_source = models.JSONField(default=dict, db_default={}, blank=True)
    memory_mib = models.PositiveIntegerField(default=0)
    price_per_hour = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    # what an hour of it counts in budgets; 1: a whole GPU-hour
    weight = models.DecimalField(max_digits=7, decimal_places=3, default=1, db_default=1)
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
    simulated = models.BooleanField(default=False, db_default=False)  # BERTH_SIMULATED_GPUS
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
    # within a guarantee it stands in line as of then: it was parked, and has a ticket
    since = models.DateTimeField(null=True)
    granted_at = models.DateTimeField(null=True)
    held_at = models.DateTimeField(null=True)  # an operator holds it back since then
    priority = models.IntegerField(default=0, db_default=0)
    exceeds = models.BooleanField(default=True, db_default=True)  # may hold more than guaranteed
    reclaimable = models.BooleanField(default=True, db_default=True)  # and be told to give it back
    time_limit_minutes = models.PositiveIntegerField(null=True)
    # a word of queues.choices.Beyond: its GPU-hours are spent
    over_budget = models.CharField(max_length=8, blank=True, default="", db_default="")
    # --- it is being given back: since when, until when it has time, and for whom ---------------
    reclaim_at = models.DateTimeField(null=True)
    reclaim_until = models.DateTimeField(null=True)
    reclaim_for = models.UUIDField(null=True)  # the work that gets it
    launch = models.PositiveIntegerField(default=0, db_default=0)  # the start that asked last
    expected_from = models.DateTimeField(null=True)  # when its turn comes, as it was told first
    expected_until = models.DateTimeField(null=True)

    @property
    def size(self) -> Resources:
        return Resources(self.cpu_milli, self.memory_mib, self.gpus, self.gpu_flavor)

    @size.setter
    def size(self, size: Resources) -> None:
        self.cpu_milli, self.memory_mib = size.cpu_milli, size.memory_mib
        self.gpus, self.gpu_flavor = size.gpus, size.gpu_flavor


class Hold(models.Model):
    """An exclusive assignment of one device to one claim."""

    claim = models.ForeignKey(Claim, on_delete=models.CASCADE, related_name="holds")
    device = models.OneToOneField(Device, on_delete=models.PROTECT, related_name="hold")


class Node(models.Model):
    """One node as last reported; written in bulk by ``services.nodes_store``."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="nodes")
    name = models.CharField(max_length=253)
    ready = models.BooleanField(default=False)
    schedulable = models.BooleanField(default=True)
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveBigIntegerField(default=0)
    accelerators = models.JSONField(default=dict, blank=True)  # resource → allocatable
    flavor = models.ForeignKey(Flavor, null=True, on_delete=models.SET_NULL)  # the first it offers
    offers = models.JSONField(default=dict, blank=True)  # flavor name → devices
    labels = models.JSONField(default=dict, blank=True)  # the ones worth showing or matching
    taints = models.JSONField(default=list, blank=True)
    version = models.CharField(max_length=64, blank=True, default="")
    message = models.CharField(max_length=300, blank=True, default="")
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="clusters_node_once")
        ]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Pool(models.Model):
    """A part of a cluster under one name. With ``kinds`` or ``project_uids`` it is reserved:
    others can't choose it, and their work is kept off its nodes.
    """

    KIND = "pool"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="pools")
    name = models.CharField(max_length=40)
    description = models.CharField(max_length=300, blank=True, default="")
    node_labels = models.JSONField(default=dict)  # label → value; all of them
    tolerations = models.JSONField(default=list, blank=True)
    flavors = models.ManyToManyField(Flavor, blank=True, related_name="pools")  # none: any
    kinds = models.JSONField(default=list, blank=True)  # of work; none: any
    project_uids = models.JSONField(default=list, blank=True)  # none: every project
    position = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="clusters_pool_once")
        ]
        ordering = ["position", "name"]

    def __str__(self) -> str:
        return self.name

    @property
    def is_reserved(self) -> bool:
        return bool(self.kinds or self.project_uids)

    def admits(self, kind: str, project_uid: Any) -> bool:
        """Whether this kind of work of this project may use the pool."""
        return (not self.kinds or kind in self.kinds) and (
            not self.project_uids or str(project_uid) in self.project_uids
        )


class NetworkProfile(models.Model):
    """An extra network as data: what it is called there, what it takes of a node per GPU.

    ``further``: pairs of attachment and resource for the second card, the third and so on, where
    each has a physical function of its own; after the last one the first comes again.
    """

    KIND = "network"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="networks")
    name = models.CharField(max_length=40)
    description = models.CharField(max_length=300, blank=True, default="")
    attachment = models.CharField(max_length=200)  # namespace/name of the definition
    resource = models.CharField(max_length=120, blank=True, default="")  # "": takes nothing
    further = models.JSONField(default=list, db_default=[], blank=True)
    per_gpu = models.BooleanField(default=True)  # count for each GPU; else for the workload
    count = models.PositiveIntegerField(default=1)
    env = models.JSONField(default=dict, blank=True)
    pools = models.ManyToManyField(Pool, blank=True, related_name="networks")  # none: anywhere
    project_uids = models.JSONField(default=list, blank=True)  # none: every project

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="clusters_network_once")
        ]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Attachment and resource of each card in order; one pair is every card's."""
        more = [(entry["attachment"], entry["resource"]) for entry in self.further or ()]
        return [(self.attachment, self.resource), *more]

    def cards(self, gpus: int) -> int:
        return self.count * (gpus if self.per_gpu else 1)


class CheckResult(models.Model):
    """The last answer of one self-check of one cluster."""

    class State(models.TextChoices):
        GREEN = "green"
        RED = "red"
        UNKNOWN = "unknown"

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="checks")
    name = models.CharField(max_length=40)
    state = models.CharField(max_length=8, choices=State.choices, default=State.UNKNOWN)
    # English words with places for values, filled and translated when shown
    sentence = models.CharField(max_length=300, blank=True, default="")
    values = models.JSONField(default=dict, blank=True)
    fix = models.TextField(blank=True, default="")  # a command, or empty
    took_ms = models.PositiveIntegerField(default=0)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="clusters_check_once")
        ]


class Farewell(models.Model):
    """A cluster that was let go of, until what Berth made there for nobody was removed.

    Its empty namespaces, and the queues that Berth kept; then it is deleted.
    """

    KIND = "cluster"

    cluster_uid = models.UUIDField()
    name = models.CharField(max_length=120)
    server = models.CharField(max_length=255)
    prefix = models.CharField(max_length=20)
    sealed_kubeconfig = models.TextField()
    places = models.JSONField(default=dict)  # namespace → uid of the place it was made for
    queues = models.BooleanField(default=False, db_default=False)  # Berth kept its queues
    next_at = models.DateTimeField()
    until = models.DateTimeField()  # when nobody answers: given up, and said so

    def __str__(self) -> str:
        return self.name

    @property
    def uid(self) -> UUID:
        """As the cluster's own, for events."""
        return self.cluster_uid
