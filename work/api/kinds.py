"""What the API of one kind of work says of its own; all that is common stands in the views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rest_framework import serializers

from common.drf.serializers import CurrencyField, LogOut
from runtime.protocol import Desired, Phase
from work.api import serializers as s
from work.fields import Edit
from work.kinds import Kind, States

Shape = Mapping[str, serializers.Field[Any, Any, Any, Any]]
_ATTACHED: Mapping[str, type[serializers.Serializer[Any]]] = {
    "volumes": s.VolumeSeenOut,
    "credentials": s.AttachedOut,
    "needs": s.AttachedOut,
}


@dataclass(frozen=True, kw_only=True)
class Api:
    """How a kind is told, and the shapes of what is taken and given, made from its table.

    ``stop`` is the verb that ends one; ``own`` what only this kind has in every answer,
    ``detail`` what it has in the answer about one.
    """

    kind: Kind
    states: States
    stop: str = "stop"
    own: Callable[[Any], Mapping[str, Any]] = lambda _row: {}
    own_shape: Shape = field(default_factory=dict)
    detail: Callable[[Any], Mapping[str, Any]] = lambda _row: {}
    detail_shape: Shape = field(default_factory=dict)

    @property
    def collection(self) -> str:
        """Return the word for all of them in addresses."""
        return f"{self.kind.word}s"

    @property
    def title(self) -> str:
        return self.kind.word.capitalize()

    @cached_property
    def takes(self) -> Any:
        """Every field is optional: what is missing is as usual."""
        return s.serializer_in(f"{self.title}In", self.kind.table)

    @cached_property
    def edits(self) -> Any:
        never = (one.name for one in self.kind.table if one.edit is Edit.NEVER)
        return s.serializer_in(f"{self.title}Edit", self.kind.table.but(*never))

    @cached_property
    def spec(self) -> Any:
        attached = {
            name: _ATTACHED[name](many=True, allow_null=True, help_text="null in lists")
            for name in self.kind.attachments
        }
        said = self.kind.table.but("name", *self.kind.attachments)
        return s.serializer_out(f"{self.title}SpecOut", said, **attached)

    @cached_property
    def gives(self) -> Any:
        """One shape for every answer about a workload; what a list leaves out is null there."""
        status = self._made(
            "StatusOut",
            state=serializers.ChoiceField(sorted(self.states.words.values)),
            phase=serializers.ChoiceField([phase.value for phase in Phase]),
            reason=serializers.CharField(allow_blank=True),
            message=serializers.CharField(allow_blank=True),
            advice=serializers.CharField(allow_blank=True, help_text="what to do about the reason"),
            observed_generation=serializers.IntegerField(),
            since=serializers.DateTimeField(allow_null=True),
            position=serializers.IntegerField(allow_null=True),
            pull=s.PullOut(allow_null=True, help_text="while a node fetches the image"),
        )
        moments = ("asked_at", "started_at", "ready_at", "ends_at", "stopped_at")
        return self._made(
            "Out",
            id=serializers.CharField(),
            uid=serializers.UUIDField(),
            name=serializers.CharField(),
            project=serializers.CharField(),
            owner=serializers.CharField(),
            generation=serializers.IntegerField(),
            desired=serializers.ChoiceField([wish.value for wish in Desired]),
            spec=self.spec(),
            status=status(),
            gpus_simulated=serializers.BooleanField(help_text="there are no such GPUs"),
            launch=serializers.IntegerField(help_text="how often it was started"),
            created_at=serializers.DateTimeField(),
            **{name: serializers.DateTimeField(allow_null=True) for name in moments},
            stop_reason=serializers.CharField(allow_blank=True),
            **self.own_shape,
            **self.detail_shape,
        )

    @cached_property
    def plans(self) -> Any:
        return self._made(
            "PlanOut",
            action=serializers.ChoiceField(("create", "update", "none")),
            name=serializers.CharField(),
            allowed=serializers.BooleanField(),
            refusal=serializers.CharField(allow_blank=True),
            restarts=serializers.BooleanField(),
            spec=self.spec(),
            changes=s.ChangeOut(many=True),
            quota=s.QuotaOut(many=True),
            starts_now=serializers.BooleanField(allow_null=True),
            position=serializers.IntegerField(allow_null=True),
            cost_per_hour=serializers.CharField(),
            currency=CurrencyField(),
            sentences=serializers.ListField(child=serializers.CharField()),
        )

    @cached_property
    def log(self) -> Any:
        made = {
            "launch": serializers.IntegerField(help_text="whose log it is"),
            "over": serializers.BooleanField(help_text="nothing is added any more"),
        }
        said = {"__doc__": "A part of what a replica of the latest launch wrote."}
        return type(f"{self.title}LogOut", (LogOut,), {**made, **said})

    def _made(self, what: str, **fields: Any) -> Any:
        name = f"{self.title}{what}"
        return type(name, (serializers.Serializer,), {**fields, "__doc__": f"{name}, as told."})
