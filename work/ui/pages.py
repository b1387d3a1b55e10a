"""What the pages of one kind of work say and show of their own; all the rest is common.

A kind registers its ``Pages`` in ``AppConfig.ready``. Its addresses come from ``work.ui.urls``;
home, palette and the lists of operators go over ``registered``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from runtime.protocol import Phase
from work.fields import Text
from work.kinds import Kind, States

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

    from accounts.principal import Principal
    from common.ui.components import Tab
    from placement.fleet import Fleet
    from projects.models import Project
    from work.ui.forms import WorkForm

Counted = Callable[[int], str]  # a sentence about so many of them
COLUMNS = ("name", "state", "owner", "size", "started", "took", "acts")


@dataclass(frozen=True, kw_only=True)
class Words:
    """Sentences that name the kind: no other grammar fits every language."""

    mine: Text  # over one's own that go on
    new: Text  # on the button that leads to its form, and over the form
    none: Text  # there is none yet
    about: Text  # what one is, to somebody who never had one
    again: Text  # start what has ended
    stop: Text  # end what has not
    stop_chosen: Text
    stopped: Text  # what the press did; with %(name)s
    stop_lost: Text  # what a stop ends and what it keeps
    delete_lost: Text
    stop_many: Counted
    stopping_many: Counted
    delete_many: Counted
    deleting_many: Counted
    events: Text  # the link to what happened to all of them
    document: Text  # what the page of its YAML is called
    retry: Text = ""  # start what has failed; "": as what has ended
    wake: Text = ""  # for starting what rests until it is called


@dataclass(frozen=True)
class Fact:
    """A line of what it is; ``code``: as it is typed; ``url``: where more of it stands."""

    label: Text
    value: str
    code: bool = False
    url: str = ""


@dataclass(frozen=True)
class Fill:
    """What one press writes into the form of something new: a size to begin with."""

    word: str
    label: Text
    about: str
    said: Mapping[str, Any]  # fields as the API says them


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A press on one of a kind; ``name`` ends its address.

    ``word`` is on the button, "" where it makes no sense now. ``ends``: whoever manages such work
    may do it too, and says why.
    """

    name: str
    icon: str
    word: Callable[[Principal, Any], Text]
    act: Callable[..., Any]  # principal=, row=, and of one that ends, said=
    done: Text  # with %(name)s
    ends: bool = False
    listed: bool = True  # in the menu of a list too
    chosen: bool = False  # of several in a list too
    lost: Text = ""  # what whoever ends another's work is told; "": what a stop loses


@dataclass(frozen=True)
class Column:
    """A column of its list that no other kind has."""

    name: str
    label: Text
    cell: Callable[[Principal, Any], SafeString]
    number: bool = False  # its digits stand below each other


@dataclass(frozen=True, kw_only=True)
class Pages:
    """``routes`` is the namespace of its addresses, ``path`` the word for all of them there."""

    kind: Kind
    routes: str
    path: str = ""  # "": as ``routes``
    new_path: str = "new"
    verb: str = "run"  # of the command that makes one
    group: str = ""  # of its commands; "": its word
    begins: str = ""  # the option that says what it begins as; "": a word without one
    repeats: bool = False  # its page has the command that makes the same again
    listed: bool = True  # home and palette have nothing of their own for it
    words: Words
    states: States
    shapes: Mapping[str, tuple[str, str]]  # state → tone and icon of its badge
    badge_word: Callable[[Any], Text] | None = None  # where the state's own says too little
    filters: Mapping[str, Text] = field(default_factory=dict)  # words of those that are no state
    # Rows that carry these words, and what the field says where they are typed.
    matching: Callable[[Any, str], Any] | None = None
    matching_hint: Text = ""
    goes_on: tuple[str, ...]  # filters in which it is not over
    # The steps of a start on one machine and on a cluster, shown ahead of time.
    ahead: tuple[tuple[str, ...], tuple[str, ...]]
    step_words: Mapping[str, Text] = field(default_factory=dict)  # where it calls one otherwise
    facts_of: Callable[[Any], list[Fact]] = lambda _row: []
    facts_part: str = "work/_facts.html"
    verbs: tuple[Verb, ...] = ()  # (): it is started and stopped (``work.ui.verbs``)
    more_verbs: tuple[Verb, ...] = ()  # beside those
    # Its form, instead of one that is made of nothing but its table.
    form: Callable[..., WorkForm] | None = None  # who, project, data, row=
    # What follows from what a link says of it (``WorkForm.given``), where the link says no more.
    follows: Callable[[Principal, Project, WorkForm], Mapping[str, Any]] = lambda *_given: {}
    # What its fields name, by what means it alone: for documents and commands.
    named: Callable[[Principal, Any], Mapping[str, Any]] = lambda _who, _row: {}
    unread: tuple[str, ...] = ()  # columns that are too large to be read with each row
    starts: tuple[tuple[str, Text, str], ...] = ()  # buttons of its form: value, word, icon
    # Under its name on each page, instead of whose it is, where, and its id.
    subtitle: Callable[[Principal, Any], SafeString] | None = None
    state_part: str = ""  # a template in the card of its state
    # A template above the form of a new one, and what it needs of its row, not saved: ``new_title``
    # stands over it.
    new_part: str = ""
    new_part_of: Callable[[Any], dict[str, Any]] = lambda _row: {}
    image_check: str = ""  # the route that looks an image up before it is asked for
    own_part: str = ""  # a template in the part that changes by itself, below the timeline
    own_part_of: Callable[[Principal, Any], dict[str, Any]] = lambda _who, _row: {}
    # What has a log of its own, by number; the first is shown where none is chosen.
    logs_of: Callable[[Any], list[tuple[int, str]]] = lambda _row: [(0, "")]
    log_stream: Callable[[Any], str] = lambda _row: ""  # where its log is followed; "": by the API
    # What its own templates need to know of one, instead of ``work.ui.present.Shown``.
    shown: Callable[[Principal, Any], Any] | None = None
    tabs: Callable[[Principal, Any], Sequence[Tab]] = lambda _who, _row: ()
    head: str = "work/_head.html"  # of each page but the overview
    style: str = ""  # of its own parts, and a script: paths of static files
    script: str = ""
    private_settings: bool = False  # its owner alone sees them, also to delete it
    open_url: Callable[[Any], str] | None = None  # what its owner opens while it runs
    columns: tuple[str | Column, ...] = COLUMNS  # of its list
    # Reads what its own columns tell of all rows of a page, before they are shown.
    seen: Callable[[Sequence[Any]], None] = lambda _rows: None
    links: tuple[tuple[str, Text, str], ...] = ()  # over its list: a route, its word, an icon
    fills: Callable[[Fleet], Sequence[Fill]] = lambda _fleet: ()

    def again(self, row: Any) -> Text:
        """Return the word for starting what has ended."""
        if self.words.wake and self.kind.is_resting(row):
            return self.words.wake
        failed = row.shown_phase == Phase.FAILED
        return self.words.retry if failed and self.words.retry else self.words.again

    def address(self, name: str, row: Any, **more: Any) -> str:
        """Return the address of a page of ``row``, which has its project."""
        keys = {"project": row.project.slug, self.kind.word: self.kind.key_of(row)}
        return reverse(f"{self.routes}:{name}", kwargs=keys, **more)

    def image_check_address(self, slug: str, cluster_key: str = "") -> str:
        """Return where an image is looked up, on the cluster that is said; "": nowhere."""
        query = {"cluster": cluster_key} if cluster_key else {}
        return reverse(self.image_check, args=[slug], query=query) if self.image_check else ""

    def list_address(self, name: str, slug: str, **more: Any) -> str:
        return reverse(f"{self.routes}:{name}", kwargs={"project": slug}, **more)


_registered: dict[str, Pages] = {}


def register(pages: Pages) -> None:
    _registered[pages.kind.word] = pages


def registered() -> Iterator[Pages]:
    """Return those of every kind that home and palette list, in the order of registration."""
    return (pages for pages in tuple(_registered.values()) if pages.listed)


def pages_of(row: Any) -> Pages:
    return _registered[row.kind]
