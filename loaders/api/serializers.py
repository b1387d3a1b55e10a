"""What the API takes and gives for loads."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from common.drf.serializers import LogOut
from loaders.choices import Result, State, StoreKind, Task
from loaders.fields import TABLE
from loaders.policies import MAX_KEY
from runtime.protocol import Desired, Phase
from work import fields as f
from work.api.serializers import (
    NO_WAIT,
    ChangeOut,
    WaitOut,
    field_in,
    serializer_in,
    serializer_out,
)

_NULL: dict[str, Any] = {"credential": "", "schedule": "", "bandwidth_bytes_s": 0}


def _takes(name: str, table: f.Table, **more: Any) -> Any:
    """Return what is taken; of a few fields null means none."""

    def validate(_self: Any, attrs: dict[str, Any]) -> dict[str, Any]:
        return {k: _NULL[k] if v is None and k in _NULL else v for k, v in attrs.items()}

    null = {one.name: field_in(one) for one in table if one.name in _NULL}
    return serializer_in(name, table, nullable=False, **null, **more, validate=validate)


LoadEdit = _takes("LoadEdit", f.Table(*(one for one in TABLE if one.edit is not f.Edit.NEVER)))
# ``url`` is all that is needed.
LoadIn = _takes(
    "LoadIn",
    TABLE,
    url=serializers.CharField(max_length=MAX_KEY + 300),
    volume=serializers.CharField(
        max_length=63,
        required=False,
        allow_blank=True,
        help_text="id or name; empty: the project's own; “cache:” or “cache:pool”: a cache of the"
        " source, near that pool, made if there is none",
    ),
    start=serializers.ChoiceField(
        choices=["load", "dry-run", "no"], default="load", help_text="what it does at once"
    ),
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


LoadSpecOut = serializer_out(
    "LoadSpecOut",
    TABLE.but("name", "cache_size_mib"),
    kind=serializers.ChoiceField(choices=StoreKind.choices),
    anonymous=serializers.BooleanField(),
    credential=serializers.CharField(allow_null=True),
    volume=serializers.UUIDField(),
    volume_name=serializers.CharField(),
    folder=serializers.CharField(),
)


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


class LoadPlanOut(serializers.Serializer[Any]):
    action = serializers.CharField()
    name = serializers.CharField()
    allowed = serializers.BooleanField()
    refusal = serializers.CharField()
    starts_now = serializers.BooleanField(allow_null=True)
    position = serializers.IntegerField(allow_null=True)
    same = serializers.UUIDField(allow_null=True)
    spec = serializers.DictField()
    changes = ChangeOut(many=True)
    sentences = serializers.ListField(child=serializers.CharField())
    warnings = serializers.ListField(child=serializers.CharField())
