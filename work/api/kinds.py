"""What the API of one kind of work says of its own; all that is common stands in the views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rest_framework import serializers

from common.drf.serializers import CurrencyField, LogOut
from runtime.protocol import Desired, Phase
from work.api import serializers as s
from work.fields import Edit
from work.kinds import Kind, States

if TYPE_CHECKING:
    from accounts.principal import Principal

Shape = Mapping[str, serializers.Field[Any, Any, Any, Any]]
_ATTACHED: Mapping[str, type[serializers.Serializer[Any]]] = {
    "volumes": s.VolumeSeenOut,
    "credentials": s.AttachedOut,
    "needs": s.AttachedOut,
}


@dataclass(frozen=True)
class Reader:
    """What an answer depends on besides the row; ``alone``: it is about this one only."""

    owns: bool
    visits: bool  # it was shared with them
    alone: bool

    @property
    def may_open(self) -> bool:
        return self.owns or self.visits

    @property
    def access(self) -> str:
        return "owner" if self.owns else "visitor" if self.visits else "none"


@dataclass(frozen=True, kw_only=True)
class Api:
    """How a kind is told, and the shapes of what is taken and given, made from its table.

    ``stop`` is the verb that ends one, ``document`` where its YAML is; ``own`` what only this kind
    has in every answer, ``detail`` what it has in the answer about one; ``spec_own`` and
    ``status_own`` what it has more in these parts.
    """

    kind: Kind
    states: States
    stop: str = "stop"
    document: str = "document"
    own: Callable[[Any], Mapping[str, Any]] = lambda _row: {}
    own_shape: Shape = field(default_factory=dict)
    detail: Callable[[Any, Reader], Mapping[str, Any]] = lambda _row, _reader: {}
    detail_shape: Shape = field(default_factory=dict)
    spec_own: Callable[[Any], Mapping[str, Any]] = lambda _row: {}
    spec_shape: Shape = field(default_factory=dict)
    status_own: Callable[[Any, Reader], Mapping[str, Any]] = lambda _row, _reader: {}
    status_shape: Shape = field(default_factory=dict)
    # A kind that takes, makes, finds and tells what is not of its table alone does so itself; each
    # with the shape of it.
    takes_shape: Any = None
    edits_shape: Any = None
    told: Callable[[Any, Principal], Mapping[str, Any]] | None = None
    told_shape: Any = None
    told_plan: Callable[[Any], Mapping[str, Any]] | None = None
    plan_shape: Any = None
    create: Callable[..., Any] | None = None  # principal=, project=, said=, and what is apart
    apart: tuple[str, ...] = ()  # what is taken beside what is said of it
    matching: Callable[[Any, str], Any] | None = None  # rows that carry these words

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
        if self.takes_shape is not None:
            return self.takes_shape
        beside: dict[str, Any] = {
            name: serializers.SlugField(max_length=63, required=False, allow_null=True)
            for name in self.kind.beside
        }
        return s.serializer_in(f"{self.title}In", self.kind.table, **beside)

    @cached_property
    def edits(self) -> Any:
        if self.edits_shape is not None:
            return self.edits_shape
        never = (one.name for one in self.kind.table if one.edit is Edit.NEVER)
        renews: dict[str, Any] = {
            "newest_image": serializers.BooleanField(
                required=False,
                help_text="pin what the image's tag means now; a running one restarts",
            )
        }
        table, more = self.kind.table.but(*never), renews if self.kind.renews else {}
        return s.serializer_in(f"{self.title}Edit", table, **more)

    @cached_property
    def spec(self) -> Any:
        attached = {
            name: _ATTACHED[name](many=True, allow_null=True, help_text="null in lists")
            for name in self.kind.attachments
        }
        said = self.kind.table.but("name", *self.kind.attachments)
        return s.serializer_out(f"{self.title}SpecOut", said, **attached, **self.spec_shape)

    @property
    def beside(self) -> Shape:
        return {name: serializers.CharField(allow_null=True) for name in self.kind.beside}

    @cached_property
    def gives(self) -> Any:
        """One shape for every answer about a workload; what a list leaves out is null there."""
        if self.told_shape is not None:
            return self.told_shape
        status = self._made(
            "StatusOut",
            state=serializers.ChoiceField(self.states.words.values),
            phase=serializers.ChoiceField([phase.value for phase in Phase]),
            reason=serializers.CharField(allow_blank=True),
            message=serializers.CharField(allow_blank=True),
            advice=serializers.CharField(allow_blank=True, help_text="what to do about the reason"),
            observed_generation=serializers.IntegerField(),
            since=serializers.DateTimeField(allow_null=True),
            position=serializers.IntegerField(allow_null=True),
            pull=s.PullOut(allow_null=True, help_text="while a node fetches the image"),
            **self.status_shape,
        )
        access = {"access": serializers.ChoiceField(("owner", "visitor", "none"))}
        moments = ("asked_at", "started_at", "ready_at", "ends_at", "stopped_at")
        return self._made(
            "Out",
            id=serializers.CharField(),
            uid=serializers.UUIDField(),
            name=serializers.CharField(),
            project=serializers.CharField(),
            owner=serializers.CharField(),
            **self.beside,
            **(access if self.kind.shared else {}),
            generation=serializers.IntegerField(),
            desired=serializers.ChoiceField([wish.value for wish in Desired]),
            spec=self.spec(),
            status=status(),
            gpus_simulated=serializers.BooleanField(help_text="there are no such GPUs"),
            launch=serializers.IntegerField(help_text="how often it was started"),
            created_at=serializers.DateTimeField(),
            **{name: serializers.DateTimeField(allow_null=True) for name in moments},
            stop_reason=serializers.CharField(allow_blank=True),
            wait=s.WaitOut(allow_null=True, help_text=s.NO_WAIT),
            way_back=s.WayBackOut(allow_null=True, help_text=s.NO_WAY_BACK),
            **self.own_shape,
            **self.detail_shape,
        )

    @cached_property
    def plans(self) -> Any:
        if self.plan_shape is not None:
            return self.plan_shape
        return self._made(
            "PlanOut",
            action=serializers.ChoiceField(("create", "update", "none")),
            name=serializers.CharField(),
            **self.beside,
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
