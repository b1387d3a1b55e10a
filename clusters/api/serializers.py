"""What clusters look like through the API. Nothing sealed is ever among the fields."""

from typing import Any

from rest_framework import serializers

from clusters.accelerators import known_of
from clusters.models import Flavor
from clusters.services.base import KINDS_OF_WORK
from common.drf.serializers import CurrencyField, StrictSerializer

_Labels = serializers.DictField


class NamesOf(serializers.ListField):
    """Related rows by name."""

    child = serializers.CharField()

    def to_representation(self, data: Any) -> list[str]:
        return [row.name for row in data.all()]


class KindOut(serializers.Serializer[Any]):
    """One kind of GPU on one cluster."""

    name = serializers.CharField(source="flavor.name")
    label = serializers.CharField(source="flavor.label")  # type: ignore[assignment]  # DRF calls something else so
    memory_mib = serializers.IntegerField(source="flavor.memory_mib")
    price_per_hour = serializers.DecimalField(
        source="flavor.price_per_hour", max_digits=10, decimal_places=2
    )
    currency = CurrencyField()
    total = serializers.IntegerField()
    used = serializers.IntegerField()
    free = serializers.IntegerField()
    waiting = serializers.IntegerField()
    largest = serializers.IntegerField(help_text="most of them on one node")
    held = serializers.IntegerField(help_text="by pods that Berth did not make")


class ClusterBrief(serializers.Serializer[Any]):
    """What every person may know: where work can run, and what is free there."""

    key = serializers.CharField()
    name = serializers.CharField()
    enabled = serializers.BooleanField()
    drain = serializers.BooleanField()
    reachable = serializers.BooleanField()
    checked_at = serializers.DateTimeField(allow_null=True)
    gpus_simulated = serializers.BooleanField(help_text="there are no such GPUs")
    gpus = KindOut(many=True)


class CheckOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]  # DRF calls something else so
    state = serializers.ChoiceField(choices=["green", "red", "unknown"])
    sentence = serializers.CharField()
    fix = serializers.CharField(allow_blank=True)
    took_ms = serializers.IntegerField()
    at = serializers.DateTimeField(allow_null=True)


class ClusterOut(serializers.Serializer[Any]):
    """What operators and auditors see."""

    uid = serializers.UUIDField()
    key = serializers.CharField()
    name = serializers.CharField()
    driver = serializers.CharField()
    server = serializers.CharField(allow_blank=True)
    fingerprint = serializers.CharField(allow_blank=True)
    enabled = serializers.BooleanField()
    drain = serializers.BooleanField()
    reachable = serializers.BooleanField()
    message = serializers.CharField(allow_blank=True)
    version = serializers.CharField(allow_blank=True)
    checked_at = serializers.DateTimeField(allow_null=True)
    attached_at = serializers.DateTimeField(allow_null=True)
    capacity = serializers.DictField()
    options = serializers.DictField()
    launch_refusal = serializers.CharField(allow_blank=True)
    gpus_simulated = serializers.BooleanField(help_text="there are no such GPUs")
    gpus = KindOut(many=True)


class LeftOut(serializers.Serializer[Any]):
    """Something that stays on a cluster when Berth lets go of it."""

    kind = serializers.CharField()
    name = serializers.CharField()
    cluster = serializers.CharField()
    project = serializers.CharField()
    project_uid = serializers.UUIDField()
    namespace = serializers.CharField(help_text="Empty where it is not known.")
    object = serializers.CharField(help_text="Its name there: of a volume, the claim's.")
    size_mib = serializers.IntegerField(allow_null=True)
    used_bytes = serializers.IntegerField(allow_null=True, help_text="As last measured.")


class ClusterLeft(serializers.Serializer[Any]):
    left = LeftOut(many=True)


class ClusterAttach(StrictSerializer):
    name = serializers.CharField(max_length=120)
    key = serializers.CharField(max_length=63, required=False, allow_blank=True)
    kubeconfig = serializers.CharField(
        max_length=64 * 1024, trim_whitespace=False, write_only=True, style={"type": "password"}
    )
    options = serializers.DictField(required=False)


class ClusterChange(StrictSerializer):
    name = serializers.CharField(max_length=120, required=False)
    enabled = serializers.BooleanField(required=False)
    drain = serializers.BooleanField(required=False)
    options = serializers.DictField(required=False)


class KubeconfigIn(StrictSerializer):
    kubeconfig = serializers.CharField(
        max_length=64 * 1024, trim_whitespace=False, write_only=True, style={"type": "password"}
    )


class NodeHolderOut(serializers.Serializer[Any]):
    """Work that holds GPUs of a node. Utilisation in percent of all it holds; null: not known."""

    kind = serializers.CharField()
    uid = serializers.UUIDField()
    name = serializers.CharField(source="told.name")
    owner = serializers.CharField(source="told.owner", allow_blank=True)
    project = serializers.CharField(source="told.project", allow_blank=True)
    gpus = serializers.IntegerField()
    gpu_utilisation = serializers.FloatField(source="told.utilisation", allow_null=True)
    gpu_utilisation_hour = serializers.FloatField(
        source="told.utilisation_hour", allow_null=True, help_text="the mean of the last hour"
    )
    idle_since = serializers.DateTimeField(source="told.idle_since", allow_null=True)


class NodeOut(serializers.Serializer[Any]):
    name = serializers.CharField(source="node.name")
    ready = serializers.BooleanField(source="node.ready")
    schedulable = serializers.BooleanField(source="node.schedulable")
    cpu_milli = serializers.IntegerField(source="node.cpu_milli")
    memory_mib = serializers.IntegerField(source="node.memory_mib")
    accelerators = serializers.DictField(
        source="node.accelerators", child=serializers.IntegerField()
    )
    gpus = serializers.DictField(source="node.offers", child=serializers.IntegerField())
    gpus_held = serializers.DictField(source="held", child=serializers.IntegerField())
    gpus_held_by_others = serializers.DictField(
        source="others",
        child=serializers.IntegerField(),
        help_text="by pods that are not of this portal",
    )
    gpus_free = serializers.DictField(
        source="free",
        child=serializers.IntegerField(),
        help_text="none of a node on which nothing may start now",
    )
    held_by = NodeHolderOut(source="holders", many=True)
    labels = serializers.DictField(
        source="node.labels", child=serializers.CharField(allow_blank=True)
    )
    taints = serializers.ListField(source="node.taints", child=serializers.DictField())
    version = serializers.CharField(source="node.version", allow_blank=True)
    message = serializers.CharField(source="node.message", allow_blank=True)
    seen_at = serializers.DateTimeField(source="node.seen_at")


class FlavorOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]  # DRF calls something else so
    resource = serializers.CharField()
    match = serializers.CharField(allow_blank=True)
    node_labels = _Labels(child=serializers.ListField(child=serializers.CharField()))
    use_source = serializers.DictField(
        child=serializers.CharField(allow_blank=True),
        help_text="where figures of use come from; empty: use_source_known",
    )
    use_source_known = serializers.SerializerMethodField(
        help_text="what is built in for the resource"
    )
    memory_mib = serializers.IntegerField()
    price_per_hour = serializers.DecimalField(max_digits=10, decimal_places=2)
    currency = CurrencyField()
    weight = serializers.DecimalField(
        max_digits=7, decimal_places=3, help_text="what an hour of it counts in budgets"
    )
    position = serializers.IntegerField()

    def get_use_source_known(self, row: Flavor) -> dict[str, str]:
        return known_of(row.resource)


class FlavorChange(StrictSerializer):
    label = serializers.CharField(max_length=120, required=False)  # type: ignore[assignment]  # DRF calls something else so
    resource = serializers.CharField(max_length=120, required=False)
    match = serializers.CharField(max_length=200, required=False, allow_blank=True)
    node_labels = _Labels(
        child=serializers.ListField(child=serializers.CharField(max_length=63), max_length=50),
        required=False,
    )
    use_source = serializers.DictField(
        child=serializers.CharField(max_length=600, allow_blank=True), required=False
    )
    memory_mib = serializers.IntegerField(min_value=0, max_value=2**31 - 1, required=False)
    price_per_hour = serializers.DecimalField(
        max_digits=10, decimal_places=2, min_value=0, required=False
    )
    weight = serializers.DecimalField(
        max_digits=7, decimal_places=3, min_value=0, max_value=1000, required=False
    )
    position = serializers.IntegerField(min_value=0, max_value=100_000, required=False)


class FlavorMake(FlavorChange):
    name = serializers.CharField(max_length=63)


class PoolOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    node_labels = _Labels(child=serializers.CharField(allow_blank=True))
    tolerations = serializers.ListField(child=serializers.DictField())
    flavors = NamesOf()
    kinds = serializers.ListField(child=serializers.CharField())
    project_uids = serializers.ListField(child=serializers.UUIDField())
    reserved = serializers.BooleanField(source="is_reserved")
    position = serializers.IntegerField()


class PoolChange(StrictSerializer):
    name = serializers.CharField(max_length=40, required=False)
    description = serializers.CharField(max_length=300, required=False, allow_blank=True)
    node_labels = _Labels(
        child=serializers.CharField(max_length=63, allow_blank=True), required=False
    )
    tolerations = serializers.ListField(
        child=serializers.DictField(child=serializers.CharField(allow_blank=True)),
        required=False,
        max_length=20,
    )
    flavors = serializers.ListField(
        child=serializers.CharField(max_length=63), required=False, max_length=100
    )
    kinds = serializers.ListField(
        child=serializers.ChoiceField(choices=KINDS_OF_WORK), required=False, max_length=10
    )
    project_uids = serializers.ListField(
        child=serializers.UUIDField(), required=False, max_length=500
    )
    position = serializers.IntegerField(min_value=0, max_value=100_000, required=False)


class NetworkCard(StrictSerializer):
    """What another card of an extra network is attached to, and what it takes of a node."""

    attachment = serializers.CharField(max_length=200)
    resource = serializers.CharField(max_length=120, allow_blank=True, default="")


class NetworkOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    attachment = serializers.CharField()
    resource = serializers.CharField(allow_blank=True)
    further = NetworkCard(many=True)
    per_gpu = serializers.BooleanField()
    count = serializers.IntegerField()
    env = serializers.DictField(child=serializers.CharField(allow_blank=True))
    pools = NamesOf()
    project_uids = serializers.ListField(child=serializers.UUIDField())


class NetworkChange(StrictSerializer):
    name = serializers.CharField(max_length=40, required=False)
    description = serializers.CharField(max_length=300, required=False, allow_blank=True)
    attachment = serializers.CharField(max_length=200, required=False)
    resource = serializers.CharField(max_length=120, required=False, allow_blank=True)
    further = serializers.ListField(
        child=NetworkCard(),
        required=False,
        max_length=63,
        help_text="for the second card, the third and so on; then the first again",
    )
    per_gpu = serializers.BooleanField(required=False)
    count = serializers.IntegerField(min_value=1, max_value=64, required=False)
    env = serializers.DictField(
        child=serializers.CharField(max_length=1000, allow_blank=True), required=False
    )
    pools = serializers.ListField(
        child=serializers.CharField(max_length=40), required=False, max_length=100
    )
    project_uids = serializers.ListField(
        child=serializers.UUIDField(), required=False, max_length=500
    )
