"""The API's view of any kind of work, made from its table of fields: strict in, plain out."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from common.drf.serializers import StrictSerializer
from work import fields as f
from work.attached import volume_word
from work.services.time_limit import DEFAULT_EXTENSION, EXTENSION


def serializer_in(name: str, table: f.Table, *, nullable: bool = True, **more: Any) -> Any:
    """Return a strict serializer class: every field optional, unknown ones refused by name.

    ``more`` are fields of its own, or instead of the table's.
    """
    made = {field.name: field_in(field, nullable=nullable) for field in table}
    return type(name, (StrictSerializer,), {**made, **more, "__doc__": f"What {name} takes."})


def serializer_out(name: str, table: f.Table, **more: Any) -> Any:
    """Return the shape of the answer, for the schema."""
    made = {field.name: field_out(field) for field in table}
    return type(name, (serializers.Serializer,), {**made, **more, "__doc__": f"{name}, as told."})


class PortIn(StrictSerializer):
    """One port; ``web``: opened in a browser behind the sign-in."""

    port = serializers.IntegerField(min_value=f.Ports.low, max_value=f.Ports.high)
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


def field_in(field: f.Field, *, nullable: bool = True) -> Any:  # noqa: PLR0911 - one per type
    """Return the field that takes it; the rules of the table follow (``Table.clean``)."""
    given: dict[str, Any] = {
        "required": False,
        "allow_null": nullable,
        "help_text": str(field.help),
    }
    match field:
        case f.Count():
            return serializers.IntegerField(min_value=field.low, max_value=field.high, **given)
        case f.Flag():
            return serializers.BooleanField(required=False, help_text=str(field.help))
        case f.Choice():
            return serializers.ChoiceField([word for word, _label in field.choices], **given)
        case f.Environment():
            return serializers.DictField(child=_text(field.longest), **given)
        case f.Words() | f.Lines():
            word = _text(field.longest)
            return serializers.ListField(child=word, max_length=field.most, **given)
        case f.Ports():
            return serializers.ListField(child=PortIn(), max_length=field.most, **given)
        case f.Names():
            item = VolumeSeenIn() if field.takes_mappings else _text(200)
            return serializers.ListField(child=item, max_length=field.most, **given)
        case _:
            longest = getattr(field, "longest", 255)
            return serializers.CharField(max_length=longest, allow_blank=True, **given)


def field_out(field: f.Field) -> Any:  # noqa: PLR0911 - one per type
    null = field.private or (isinstance(field, f.Count) and field.empty is not None)
    given: dict[str, Any] = {"allow_null": null, "help_text": _help(field)}
    match field:
        case f.Count():
            return serializers.IntegerField(**given)
        case f.Flag():
            return serializers.BooleanField(**given)
        case f.Choice():
            return serializers.ChoiceField([word for word, _label in field.choices], **given)
        case f.Environment():
            return serializers.DictField(child=serializers.CharField(), **given)
        case f.Words() | f.Lines():
            return serializers.ListField(child=serializers.CharField(), **given)
        case f.Ports():
            return PortOut(many=True, **given)
        case f.Names():
            return serializers.ListField(child=serializers.JSONField(), **given)
        case _:
            return serializers.CharField(allow_blank=True, **given)


def _text(longest: int) -> serializers.CharField:
    return serializers.CharField(allow_blank=True, trim_whitespace=False, max_length=longest)


def _help(field: f.Field) -> str:
    told = "null: not yours, or in a list" if field.private else ""
    return " ".join(filter(None, (str(field.help), told)))


class AttachedOut(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()


class VolumeSeenOut(AttachedOut):
    read_only = serializers.BooleanField()  # type: ignore[assignment]


class PortOut(serializers.Serializer[Any]):
    port = serializers.IntegerField()
    name = serializers.CharField()
    web = serializers.BooleanField()


class OpenPortOut(PortOut):
    url = serializers.CharField()


class PullOut(serializers.Serializer[Any]):
    since = serializers.DateTimeField()
    size_bytes = serializers.IntegerField(
        allow_null=True, help_text="null: the registry of the image was not asked, or did not say"
    )


NO_WAIT = "null: it stands in no line; and in lists"
NO_WAY_BACK = "null: it asks for no GPU or has those it wants; and in lists"


class SoonerOut(serializers.Serializer[Any]):
    said = serializers.DictField(help_text="what to send as a change of it")
    text = serializers.CharField()


class WaitOut(serializers.Serializer[Any]):
    """What it waits for in its line, until when, and what would start it sooner."""

    sentence = serializers.CharField()
    position = serializers.IntegerField(allow_null=True, help_text="null: its queue tells none")
    ahead = serializers.CharField(
        allow_blank=True, help_text="whose work is before it; projects of others by number"
    )
    earliest = serializers.DateTimeField(allow_null=True, help_text="null: nobody can say")
    latest = serializers.DateTimeField(allow_null=True)
    when = serializers.CharField(help_text="the same in words")
    honesty = serializers.CharField(allow_blank=True, help_text="how good estimates were, in words")
    samples = serializers.IntegerField(help_text="past runs that the estimate goes by")
    held = serializers.FloatField(
        allow_null=True, help_text="what part of past estimates held; null: too few are over"
    )
    changes = SoonerOut(many=True, help_text="for its owner: what starts it now, then sooner")


class WayBackOut(serializers.Serializer[Any]):
    """When it has the GPUs again that it gave back, were they asked for now."""

    gpus = serializers.IntegerField()
    when = serializers.CharField(help_text="in words")
    starts_now = serializers.BooleanField()
    before = serializers.IntegerField(help_text="so many stand before it")
    ticket_until = serializers.DateTimeField(
        allow_null=True, help_text="it goes ahead of newcomers until then; null: it has no ticket"
    )
    void = serializers.CharField(allow_blank=True, help_text="why its ticket does not count")
    sentence = serializers.CharField(help_text="all of it in one line")


class ChangeOut(serializers.Serializer[Any]):
    field = serializers.CharField()
    to = serializers.JSONField(allow_null=True)

    def get_fields(self) -> dict[str, Any]:
        # "from" is a word of Python and cannot be a class attribute
        return {**super().get_fields(), "from": serializers.JSONField(allow_null=True)}


class QuotaOut(serializers.Serializer[Any]):
    resource = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    used = serializers.IntegerField()
    after = serializers.IntegerField()
    limit = serializers.IntegerField(allow_null=True)


class StepOut(serializers.Serializer[Any]):
    launch = serializers.IntegerField()
    word = serializers.CharField()
    at = serializers.DateTimeField()
    message = serializers.CharField(allow_blank=True)


class ExtendIn(StrictSerializer):
    minutes = serializers.IntegerField(
        min_value=EXTENSION.low, max_value=EXTENSION.high, default=DEFAULT_EXTENSION
    )


class ShareIn(StrictSerializer):
    username = serializers.CharField(max_length=64)


class ShareOut(serializers.Serializer[Any]):
    username = serializers.CharField()
    display_name = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()
