"""What the API takes (strictly), and the shapes of what it gives, for the schema."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from common.drf.serializers import CurrencyField, StrictSerializer
from notebooks.choices import WorkspaceKind
from notebooks.kind import PORTS, TABLE
from runtime.protocol import Desired, Phase
from work.api.serializers import (
    AttachedOut,
    ChangeOut,
    PullOut,
    QuotaOut,
    VolumeSeenOut,
    field_in,
    serializer_in,
    serializer_out,
)
from work.attached import volume_word
from work.standard_fields import TIME_LIMIT


class PortIn(StrictSerializer):
    """One port of a container; ``web``: opened in a browser behind the sign-in."""

    port = serializers.IntegerField(min_value=PORTS.low, max_value=PORTS.high)
    name = serializers.CharField(max_length=15, required=False, allow_blank=True)
    web = serializers.BooleanField(default=True)

    def to_internal_value(self, data: Any) -> Any:
        """A bare number is a web port."""
        is_number = isinstance(data, int) and not isinstance(data, bool)
        return super().to_internal_value({"port": data} if is_number else data)


class VolumeSeenIn(StrictSerializer):
    """A volume by name or id; ``read_only`` left out: written to as far as one may."""

    volume = serializers.CharField(max_length=200)
    read_only = serializers.BooleanField(required=False)  # type: ignore[assignment]

    def to_internal_value(self, data: Any) -> Any:
        """A bare word is a volume; ``name:ro`` is only read."""
        if isinstance(data, str):
            name, read_only = volume_word(data)
            data = {"volume": name, **({} if read_only is None else {"read_only": read_only})}
        return super().to_internal_value(data)


_VOLUMES = field_in(TABLE["volumes"], child=VolumeSeenIn())
_PORTS = field_in(PORTS, child=PortIn())
_SAID = serializer_in("WorkspaceSaid", TABLE, volumes=_VOLUMES, ports=_PORTS)


class WorkspaceIn(_SAID):  # type: ignore[misc,valid-type]
    """Every field is optional: what is missing comes from the preset (or stays as it is)."""

    preset = serializers.SlugField(max_length=40, required=False, allow_null=True)

    def said(self) -> dict[str, Any]:
        return {name: v for name, v in self.validated_data.items() if v is not None}


class WorkspaceEdit(WorkspaceIn):
    preset = None  # type: ignore[assignment]
    kind = None
    cluster = None
    newest_image = serializers.BooleanField(
        required=False, help_text="pin what the image's tag means now; a running one restarts"
    )


class ExtendIn(StrictSerializer):
    minutes = serializers.IntegerField(min_value=1, max_value=60 * 24 * 7, default=60)


class ShareIn(StrictSerializer):
    username = serializers.CharField(max_length=64)


class EmptyIn(StrictSerializer):
    """A POST without fields."""


class PortOut(serializers.Serializer[Any]):
    port = serializers.IntegerField()
    name = serializers.CharField()
    web = serializers.BooleanField()


class OpenPortOut(PortOut):
    url = serializers.CharField()


class SpecOut(
    serializer_out(  # type: ignore[misc]
        "SpecSaid",
        TABLE.but("name"),
        kind=serializers.ChoiceField(WorkspaceKind.values),
        ports=PortOut(many=True),
        volumes=VolumeSeenOut(many=True, allow_null=True, help_text="null in lists"),
        credentials=AttachedOut(many=True, allow_null=True),
        needs=AttachedOut(many=True, allow_null=True),
    )
):
    image_digest = serializers.CharField(
        allow_blank=True, help_text="which bytes every start takes; empty: what the tag means then"
    )
    image_pinned_at = serializers.DateTimeField(allow_null=True)


class StatusOut(serializers.Serializer[Any]):
    phase = serializers.ChoiceField([phase.value for phase in Phase])
    reason = serializers.CharField(allow_blank=True)
    message = serializers.CharField(allow_blank=True)
    advice = serializers.CharField(allow_blank=True, help_text="what to do about the reason")
    observed_generation = serializers.IntegerField()
    since = serializers.DateTimeField(allow_null=True)
    position = serializers.IntegerField(allow_null=True)
    pull = PullOut(allow_null=True, help_text="while the node fetches the image")
    node = serializers.CharField(
        allow_null=True,
        help_text="where it was last seen; null while it has none, on one machine, and in lists",
    )
    url = serializers.CharField(allow_null=True)
    ports = OpenPortOut(many=True, help_text="ports that you may open now")


class WorkspaceOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    uid = serializers.UUIDField()
    name = serializers.CharField()
    project = serializers.CharField()
    owner = serializers.CharField()
    preset = serializers.CharField(allow_null=True)
    access = serializers.ChoiceField(("owner", "visitor", "none"))
    generation = serializers.IntegerField()
    desired = serializers.ChoiceField([wish.value for wish in Desired])
    spec = SpecOut()
    status = StatusOut()
    launch = serializers.IntegerField()
    home = serializers.UUIDField()
    created_at = serializers.DateTimeField()
    asked_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    ready_at = serializers.DateTimeField(allow_null=True)
    ends_at = serializers.DateTimeField(allow_null=True)
    stopped_at = serializers.DateTimeField(allow_null=True)
    stop_reason = serializers.CharField(allow_blank=True)
    idle_stop_minutes = serializers.IntegerField(allow_null=True)


class PlanOut(serializers.Serializer[Any]):
    action = serializers.ChoiceField(("create", "update", "none"))
    name = serializers.CharField()
    preset = serializers.CharField(allow_null=True)
    allowed = serializers.BooleanField()
    refusal = serializers.CharField(allow_blank=True)
    restarts = serializers.BooleanField()
    spec = SpecOut()
    changes = ChangeOut(many=True)
    quota = QuotaOut(many=True)
    starts_now = serializers.BooleanField(allow_null=True)
    position = serializers.IntegerField(allow_null=True)
    cost_per_hour = serializers.CharField()
    currency = CurrencyField()
    sentences = serializers.ListField(child=serializers.CharField())


class ShareOut(serializers.Serializer[Any]):
    username = serializers.CharField()
    display_name = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()


class SampleOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    cpu_milli = serializers.IntegerField(allow_null=True)
    memory_mib = serializers.IntegerField(allow_null=True)
    gpu_utilisation = serializers.FloatField(allow_null=True)
    gpu_memory_mib = serializers.IntegerField(allow_null=True)
    gpu_shared = serializers.BooleanField(help_text="others use its GPUs too; figures are theirs")
    gpu_simulated = serializers.BooleanField(help_text="there are no such GPUs")


_PRESET = TABLE.but("name", "env", "time_limit_minutes", "volumes", "credentials", "needs")
_MINUTES: dict[str, Any] = {"allow_null": True, "min_value": 1, "max_value": TIME_LIMIT.high}


class PresetOut(
    serializer_out(  # type: ignore[misc]
        "PresetSaid",
        _PRESET,
        kind=serializers.ChoiceField(WorkspaceKind.values),
        ports=PortOut(many=True),
    )
):
    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    icon = serializers.CharField()
    time_limit_minutes = serializers.IntegerField(allow_null=True)
    max_time_limit_minutes = serializers.IntegerField(allow_null=True)
    idle_stop_minutes = serializers.IntegerField(allow_null=True)
    is_active = serializers.BooleanField()


class PresetEdit(
    serializer_in(  # type: ignore[misc]
        "PresetSaid",
        _PRESET,
        nullable=False,
        ports=field_in(PORTS, nullable=False, child=PortIn()),
    )
):
    """What an operator says of a preset; what is left out stays as it is."""

    name = serializers.CharField(max_length=60, required=False)
    description = serializers.CharField(max_length=300, required=False, allow_blank=True)
    icon = serializers.SlugField(max_length=40, required=False)
    default_env = field_in(TABLE["env"], nullable=False)
    time_limit_minutes = serializers.IntegerField(required=False, **_MINUTES)
    max_time_limit_minutes = serializers.IntegerField(required=False, **_MINUTES)
    idle_stop_minutes = serializers.IntegerField(required=False, **_MINUTES)
    position = serializers.IntegerField(min_value=0, max_value=100_000, required=False)
    is_active = serializers.BooleanField(required=False)
    projects = serializers.ListField(
        child=serializers.SlugField(max_length=63),
        max_length=1000,
        required=False,
        help_text="none: every project",
    )


class PresetIn(PresetEdit):
    """A new preset; its short name never changes."""

    slug = serializers.SlugField(max_length=40, required=False)
    name = serializers.CharField(max_length=60)
