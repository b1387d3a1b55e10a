"""The kinds of work that there are: what each says of itself, and nothing that is common to all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runtime.protocol import Desired, Phase
from runtime.spec import PodGroup, Resources
from work.choices import StopReason
from work.fields import Table, Text

if TYPE_CHECKING:
    from uuid import UUID

    from django.db.models import Q, QuerySet, TextChoices

    from accounts.principal import Principal
    from clusters.models import Cluster
    from projects.access import Permission
    from projects.models import Project
    from runtime.spec import Together
    from volumes.models import Volume
    from work.attached import Attached
    from work.services.plan import Plan
    from work.services.resolve import Resolved
    from work.why import Why


def _pin(row: Any, digest: str) -> None:
    row.image_digest = digest


@dataclass(frozen=True, kw_only=True)
class States:
    """What people read of a row: one word for how it is, and a sentence why."""

    words: type[TextChoices]
    of: Callable[[Any], Any]  # a member of ``words``
    over: frozenset[Any]  # those in which nothing goes on
    filters: Mapping[str, Q]  # those to which a list can be narrowed
    why: Callable[[Any], Why]
    advice: Callable[[Any], str]
    warning: Callable[[Any], str] = lambda _row: ""  # what is wrong around one that runs
    early: bool = False  # ``why`` knows of one too that was not looked at since it was changed

    def is_over(self, row: Any) -> bool:
        return self.of(row) in self.over


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of work, registered in ``AppConfig.ready`` of its app.

    ``word`` stands in addresses of the API, events, labels and topics; ``document`` is the kind
    of its YAML. ``work_class`` is the word by which pools and queues say who may use them, where
    it is not the same for every row.
    """

    word: str
    document: str
    model: type[Any]  # a child of ``work.models.Workload``
    one: Text
    many: Text
    icon: str
    table: Table
    create: Permission
    read: Permission
    manage: Permission
    managed: bool = False  # whoever manages such work, and may make it, changes and starts it too
    lapses: bool = False  # it stops when its owner may not make such work any more
    key: str = "short_id"  # the column by which addresses name one
    # Who reads what is private in one; None: its owner.
    opens: Callable[[Principal, Any], bool] | None = None
    # A new row, not saved, before anything that was said is written into it; None: as its columns
    # are by default.
    defaults: Callable[[Principal, Project, Mapping[str, Any]], Any] | None = None
    # What a new one may be told that no field of it is, by its type in a document; and what a
    # row then says of that.
    beside: Mapping[str, type] = field(default_factory=dict)
    told_beside: Callable[[Any], Mapping[str, Any]] | None = None
    first_name: Callable[[Any], str] | None = None  # of one that nobody named; None: its word
    # Looks up what is said by name, as who asks may use it, and writes what follows from that.
    # ``placed`` False: its cluster too, whatever is free there.
    look_up: Callable[[Principal, Any, Mapping[str, Any]], None] | None = None
    placed: bool = True
    # What the table can't know: raises Invalid, fills in what was not said.
    settle: Callable[[Any, Mapping[str, Any]], None] | None = None
    # Raises Invalid where a row can't run on a cluster as it is.
    check_place: Callable[[Cluster, Any], None] | None = None
    # Raises Invalid where a row can't run with what is attached; returns what a plan says of it.
    look_at_attached: Callable[[Any, Attached], list[str]] | None = None
    work_class: Callable[[Any], str] | None = None
    classes: Mapping[str, Text] = field(default_factory=dict)  # all those; none: its own word
    purpose: str = "train"  # by which rules queues let it in: build, train, inference
    replicas: Callable[[Any], int] | None = None  # None: one; sizes are those of each
    others: Callable[[Any], PodGroup | None] | None = None  # besides them, of a size of their own
    together: Callable[[Any], Together | None] | None = None  # what keeps its replicas together
    counts_as: str = ""  # the limit of which each takes one
    check_new: Callable[[Any], None] | None = None  # raises, before anything of a new one is made
    # In the transaction that makes one: the volumes that are there for it by its nature, to be
    # held with what is attached; then what is still missing.
    homes: Callable[[Any], tuple[Volume, ...]] | None = None
    prepare: Callable[[Principal, Any], None] | None = None
    # In the transaction of an edit, the row before and after it, and the fields: sets what follows.
    change: Callable[[Any, Any, Collection[str]], None] | None = None
    check_edit: Callable[[Any, Any, Collection[str]], None] | None = None  # raises; also of a plan
    # Before that transaction, the row and the fields: looks at what lies elsewhere, for a moment.
    look_first: Callable[[Principal, Any, Collection[str]], None] | None = None
    # What is said of a plan, instead of what limits, placement and prices say.
    judge: Callable[[Principal, Resolved, Plan], Plan] | None = None
    # How a launch of a row that is saved begins, and one of a row that was made before, where it
    # is not as of every kind.
    launch: Callable[[Principal, Any], None] | None = None
    start: Callable[..., Any] | None = None  # principal=, row=
    # In the transaction of a launch that a person asked for, when all of it is written.
    launched: Callable[[Principal, Any], None] | None = None
    # What it brings is there: a document that is applied again does not start it.
    done: Callable[[Any], bool] | None = None
    # Columns of its own as a new launch finds them, or what gives them.
    of_a_launch: Mapping[str, Any] = field(default_factory=dict)
    pin: Callable[[Any, str], None] = _pin  # keeps which bytes its image means
    related: tuple[str, ...] = ()  # read with each row, beside project and owner
    deferred: tuple[str, ...] = ()  # of these, columns that nobody who looks at it reads
    # The words of its model's ``stop_reason``, the one for a stop that its owner asks for, and
    # where it is another one for others.
    stop_reasons: type[TextChoices] = StopReason
    asked: str = StopReason.USER.value
    asked_by: Callable[[Principal, Any], str] | None = None
    stop_notice: str = "work.stopped"  # "": its owner is not told of a stop
    stop_notices: Mapping[str, str] = field(default_factory=dict)  # reason → who did it, and why
    # Reasons for a stop after which it goes on by itself when it is called; another stop ends that.
    rests: frozenset[str] = frozenset()
    ending_notice: str = "work.ending"  # before its time limit
    # Sets its own columns when it is told to stop, for a reason ("": to go); returns which.
    stopping: Callable[[Any, str], Collection[str]] | None = None
    # What all those that are told to stop with a project or a person do not do any more.
    rest: Callable[[QuerySet[Any], str], None] | None = None
    made: str = "launched"  # the verb of the first launch
    started: str = "started"  # of another one
    stopped: Mapping[str, str] = field(default_factory=dict)  # reason → verb; "stopped"
    taken: Text = ""  # said of a name; "": what is said of any work
    counted: Callable[[int], str] | None = None  # so many of it, in words
    # Attachments that it takes; each a field of the table.
    attachments: tuple[str, ...] = ("volumes", "credentials", "needs")
    once: bool = False  # it runs to its end; started again it is a new launch of the same row
    shared: bool = False  # its owner may let members of the project open it
    renews: bool = False  # its owner may have it take the newest image of its tag
    longest: Callable[[Any], int | None] | None = None  # minutes of its time limit, at most
    # What a new row sees where nothing is said of it; None: the project's volume.
    attached_first: Callable[[Principal, Any], Attached | None] = lambda _who, _row: None
    hidden: Q | None = None  # those that no list shows: they belong to another one
    ends_hidden: bool = True  # who may end any of them may end one of those by itself, too
    timeline: bool = True  # its steps are kept; False: what happened to it is told otherwise
    alive: Q | None = None  # those of which something runs or will; None: their phase says it

    def new(self, principal: Principal, project: Project, said: Mapping[str, Any]) -> Any:
        """Return a row of its defaults, not saved."""
        if self.defaults is not None:
            return self.defaults(principal, project, said)
        return self.model(project=project, owner=principal.user, kind=self.word, cluster_key="")

    def remarks(self, row: Any, attached: Attached) -> list[str]:
        return [] if self.look_at_attached is None else self.look_at_attached(row, attached)

    def begin(self, row: Any) -> None:
        """Set its own columns for a new launch; the caller saves."""
        for name, value in self.of_a_launch.items():
            setattr(row, name, value() if callable(value) else value)

    def beside_of(self, row: Any) -> Mapping[str, Any]:
        return self.told_beside(row) if self.told_beside else {}

    def key_of(self, row: Any) -> Any:
        return getattr(row, self.key)

    def class_of(self, row: Any) -> str:
        return self.work_class(row) if self.work_class else self.word

    def classes_of(self, uids: Collection[UUID]) -> dict[UUID, str]:
        """Return the class of each row that is there; one query, none where all are of one."""
        if self.work_class is None:
            return {}
        rows = self.model.objects.filter(uid__in=uids)
        return {row.uid: self.work_class(row) for row in rows.iterator()}

    def longest_of(self, row: Any) -> int | None:
        return self.longest(row) if self.longest else None

    def replicas_of(self, row: Any) -> int:
        return self.replicas(row) if self.replicas else 1

    def others_of(self, row: Any) -> PodGroup | None:
        return self.others(row) if self.others else None

    def parts_of(self, row: Any) -> int:
        """Return how many processes or pods it is."""
        others = self.others_of(row)
        return self.replicas_of(row) + (others.replicas if others else 0)

    def more_of(self, row: Any) -> Resources | None:
        """Return what those take together that have a size of their own."""
        others = self.others_of(row)
        size = others.resources if others else None
        return size.times(others.replicas) if others and size else None

    def total_of(self, row: Any) -> Resources:
        """Return what all of it takes together."""
        alike: Resources = row.resources.times(self.replicas_of(row))
        more = self.more_of(row)
        return alike.plus(more) if more else alike

    def together_of(self, row: Any) -> Together | None:
        return self.together(row) if self.together else None

    def is_resting(self, row: Any) -> bool:
        return row.desired == Desired.STOPPED and row.stop_reason in self.rests

    def is_over(self, row: Any) -> bool:
        """Whether it ran to its end: a stop would change nothing that runs."""
        return self.once and row.desired == Desired.RUNNING and not row.is_on_its_way

    def starts(self, row: Any, *, is_changed: bool) -> bool:
        """Whether an edit that shall start it does: what has succeeded is not done twice."""
        if row.is_on_its_way:
            return False
        if self.done is not None:
            return not self.done(row)
        return is_changed or not (self.is_over(row) and row.phase == Phase.STOPPED)

    @property
    def own(self) -> Table:
        """The fields that are columns of the row: all but what is attached."""
        return self.table.but(*self.attachments)

    def count_words(self, number: int) -> str:
        return self.counted(number) if self.counted else f"{number} {self.many}"


_kinds: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    _kinds[kind.word] = kind


def unregister(word: str) -> None:
    """Forget a kind; for tests that have one of their own."""
    del _kinds[word]


def kind_of(word: str) -> Kind:
    return _kinds[word]


def kinds() -> Iterator[Kind]:
    """Return every kind, in the order of registration."""
    return iter(tuple(_kinds.values()))
