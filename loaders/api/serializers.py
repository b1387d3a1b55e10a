"""What the API takes and gives for loads."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from common.drf.serializers import LogOut, StrictSerializer
from loaders.choices import Direction, Mode, Result, State, StoreKind, Task
from loaders.policies import MAX_KEY, MAX_NAME, MAX_OBJECTS, MAX_PATTERN, MAX_PATTERNS
from loaders.reports import MAX_NUMBER
from runtime.protocol import Desired, Phase
from volumes.services.create import MAX_SIZE_MIB
from work.api.serializers import NO_WAIT, WaitOut


def _patterns() -> serializers.ListField:
    return serializers.ListField(
        child=serializers.CharField(max_length=MAX_PATTERN), max_length=MAX_PATTERNS, required=False
    )


class LoadEdit(StrictSerializer):
    """What may change later; each field may stay away."""

    name = serializers.CharField(max_length=MAX_NAME, required=False)
    credential = serializers.CharField(
        max_length=63, required=False, allow_blank=True, allow_null=True
    )
    mode = serializers.ChoiceField(choices=Mode.choices, required=False)
    delete_extra = serializers.BooleanField(required=False)
    include = _patterns()
    exclude = _patterns()
    bandwidth_bytes_s = serializers.IntegerField(
        min_value=0, max_value=MAX_NUMBER, required=False, allow_null=True
    )
    schedule = serializers.CharField(
        max_length=100, required=False, allow_blank=True, allow_null=True
    )
    time_zone = serializers.CharField(max_length=63, required=False, allow_blank=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        for name, empty in (("credential", ""), ("schedule", ""), ("bandwidth_bytes_s", 0)):
            if name in attrs and attrs[name] is None:
                attrs[name] = empty  # written as null: none
        return attrs


class LoadIn(LoadEdit):
    """``url`` is all that is needed. ``start``: false only makes it."""

    url = serializers.CharField(max_length=MAX_KEY + 300)
    direction = serializers.ChoiceField(choices=Direction.choices, required=False)
    volume = serializers.CharField(
        max_length=63,
        required=False,
        allow_blank=True,
        help_text="id or name; empty: the project's own; “cache:” or “cache:pool”: a cache of the"
        " source, near that pool, made if there is none",
    )
    cache_size_mib = serializers.IntegerField(
        min_value=1, max_value=MAX_SIZE_MIB, required=False, help_text="of a cache that is made"
    )
    folder = serializers.CharField(max_length=MAX_KEY, required=False, allow_blank=True)
    objects = serializers.ListField(
        child=serializers.CharField(max_length=MAX_KEY, trim_whitespace=False),
        max_length=MAX_OBJECTS,
        required=False,
    )
    version = serializers.CharField(max_length=MAX_NAME, required=False, allow_blank=True)
    endpoint = serializers.CharField(max_length=255, required=False, allow_blank=True)
    region = serializers.CharField(max_length=63, required=False, allow_blank=True)
    path_style = serializers.BooleanField(required=False)
    start = serializers.ChoiceField(
        choices=["load", "dry-run", "no"], default="load", help_text="what it does at once"
    )


class CountsOut(serializers.Serializer[Any]):
    found = serializers.IntegerField()
    done = serializers.IntegerField()
    unchanged = serializers.IntegerField()
    skipped = serializers.IntegerField()
    failed = serializers.IntegerField()
    deleted = serializers.IntegerField()


class BytesOut(serializers.Serializer[Any]):
    found = serializers.IntegerField()
    done = serializers.IntegerField()
    read = serializers.IntegerField()


class LoadSpecOut(serializers.Serializer[Any]):
    direction = serializers.ChoiceField(choices=Direction.choices)
    kind = serializers.ChoiceField(choices=StoreKind.choices)
    url = serializers.CharField()
    credential = serializers.CharField(allow_null=True)
    anonymous = serializers.BooleanField()
    volume = serializers.UUIDField()
    volume_name = serializers.CharField()
    folder = serializers.CharField()
    mode = serializers.ChoiceField(choices=Mode.choices)
    delete_extra = serializers.BooleanField()
    include = serializers.ListField(child=serializers.CharField())
    exclude = serializers.ListField(child=serializers.CharField())
    objects = serializers.ListField(child=serializers.CharField(), allow_null=True)
    bandwidth_bytes_s = serializers.IntegerField(allow_null=True)
    version = serializers.CharField()
    endpoint = serializers.CharField()
    region = serializers.CharField()
    path_style = serializers.BooleanField()
    schedule = serializers.CharField()
    time_zone = serializers.CharField()


class LoadStatusOut(serializers.Serializer[Any]):
    state = serializers.ChoiceField(choices=State.choices)
    phase = serializers.ChoiceField([phase.value for phase in Phase])
    reason = serializers.CharField()
    message = serializers.CharField()
    advice = serializers.CharField()
    code = serializers.CharField()
    position = serializers.IntegerField(allow_null=True)
    observed_generation = serializers.IntegerField()
    task = serializers.ChoiceField(choices=Task.choices)
    listed = serializers.BooleanField()
    percent = serializers.IntegerField(allow_null=True)
    files = CountsOut()
    bytes = BytesOut()
    rate_bytes_s = serializers.IntegerField()
    eta_s = serializers.IntegerField(allow_null=True)
    verified = serializers.DictField(child=serializers.IntegerField())
    reported_at = serializers.DateTimeField(allow_null=True)
    tries = serializers.IntegerField(help_text="how often it went on by itself after being cut off")
    retry_at = serializers.DateTimeField(
        allow_null=True, help_text="when it goes on by itself; null: it does not"
    )


class DryRunOut(serializers.Serializer[Any]):
    files = serializers.IntegerField()
    bytes = serializers.IntegerField()
    seconds = serializers.IntegerField(allow_null=True)
    skipped = serializers.IntegerField()
    at = serializers.CharField()


class LoadOut(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    project = serializers.CharField()
    owner = serializers.CharField()
    generation = serializers.IntegerField()
    desired = serializers.ChoiceField([wish.value for wish in Desired])
    spec = LoadSpecOut()
    status = LoadStatusOut()
    run = serializers.IntegerField()
    dry_run = DryRunOut(allow_null=True)
    manifest = serializers.CharField()
    next_run_at = serializers.DateTimeField(allow_null=True)
    schedule_note = serializers.CharField()
    created_at = serializers.DateTimeField()
    asked_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    loaded_at = serializers.DateTimeField(allow_null=True)
    wait = WaitOut(allow_null=True, help_text=NO_WAIT)


class LoadErrorOut(serializers.Serializer[Any]):
    key = serializers.CharField()
    code = serializers.CharField()
    message = serializers.CharField()


class LoadRunOut(serializers.Serializer[Any]):
    run = serializers.IntegerField()
    task = serializers.ChoiceField(choices=Task.choices)
    started_by = serializers.CharField(allow_null=True)
    scheduled = serializers.BooleanField()
    asked_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    result = serializers.ChoiceField(choices=Result.choices, allow_blank=True)
    code = serializers.CharField()
    message = serializers.CharField()
    files = CountsOut()
    bytes = BytesOut()
    verified = serializers.DictField(child=serializers.IntegerField())


class LoadLogOut(LogOut):
    """A part of what one run wrote."""

    run = serializers.IntegerField(allow_null=True, help_text="null: it never ran")
    over = serializers.BooleanField(help_text="nothing is added any more")


class LoadManifestOut(serializers.Serializer[Any]):
    """Where the list of what was copied lies, with a checksum for each file."""

    volume = serializers.UUIDField()
    path = serializers.CharField()
    run = serializers.IntegerField(allow_null=True)
    verified = serializers.DictField(child=serializers.IntegerField())
    checked_at = serializers.DateTimeField(allow_null=True)
    checked_result = serializers.CharField(allow_blank=True)


class LoadChangeOut(serializers.Serializer[Any]):
    field = serializers.CharField()
    to = serializers.JSONField(allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        fields["from"] = serializers.JSONField(allow_null=True)
        return fields


class LoadPlanOut(serializers.Serializer[Any]):
    action = serializers.CharField()
    name = serializers.CharField()
    allowed = serializers.BooleanField()
    refusal = serializers.CharField()
    starts_now = serializers.BooleanField(allow_null=True)
    position = serializers.IntegerField(allow_null=True)
    same = serializers.UUIDField(allow_null=True)
    spec = serializers.DictField()
    changes = LoadChangeOut(many=True)
    sentences = serializers.ListField(child=serializers.CharField())
    warnings = serializers.ListField(child=serializers.CharField())
