"""What may be said of a workload: one table of fields per kind.

The form, the YAML document, the options of the command line, the serializers of the API and the
plan are all made from this table, so a new field is one line in it and a column of the row.
Pure rules: no row is read here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, ClassVar
from unicodedata import normalize

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.errors import wrong
from common.manifests import is_env_name, is_env_refused
from placement.decision import names_in

MAX_CPU_MILLI = 1_024_000
MAX_MEMORY_MIB = 16 * 1024 * 1024
MAX_GPUS = 64

_PORT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")

Text = str | Promise


class Edit(Enum):
    """When a field of a workload that exists may change."""

    NEVER = "never"  # chosen once
    RESTARTS = "restarts"  # a running one starts again
    ALWAYS = "always"  # no process needs to know


class Unit(IntEnum):
    """What people read and write, by how many of what is kept make one of it."""

    NONE = 0
    MINUTES = 1
    CORES = 1000  # kept in thousandths
    GIB = 1024  # kept in MiB
    MIB = 2**20  # kept in bytes


@dataclass(frozen=True, kw_only=True)
class Field:
    """One thing that may be said. Subclasses know its type and its rules."""

    name: str  # in API and document
    label: Text
    help: Text = ""
    form_help: Text = ""  # how it is written into a form, where that is another matter
    fact: Text = ""  # what a page that tells its value with the unit calls it, where not ``label``
    folded: bool = False  # a form folds it away: it is said less often
    sooner: bool = False  # what waits may start sooner with another value of it
    column: str = ""  # of the row, where it is not ``name``
    edit: Edit = Edit.RESTARTS
    private: bool = False  # told to the owner only: people write secrets into it
    quiet: bool = False  # a document leaves it out where it says nothing
    usual: str | int = ""
    option: str = ""  # of the command line, where it is not ``--name``
    argument: bool = False  # the command line takes it without an option
    images_only: bool = False  # one machine, which runs no images, does not have it
    only: tuple[str, str] | None = None  # it makes sense where the choice of that name is this word
    document: ClassVar[type] = str  # as YAML has it
    metavar: ClassVar[str] = "TEXT"

    @property
    def attribute(self) -> str:
        return self.column or self.name

    def clean(self, value: Any) -> Any:
        """Return what is kept, or raise Invalid that names the field and says what to do."""
        raise NotImplementedError

    def read(self, row: Any) -> Any:
        """Return what the row keeps, as API and document say it."""
        return getattr(row, self.attribute)

    def write(self, row: Any, value: Any) -> None:
        setattr(row, self.attribute, value)

    def says(self, value: Any) -> bool:
        """Whether a value is more than none, or than the usual one."""
        return bool(value) and value != self.usual

    def is_same(self, row: Any, value: Any) -> bool:
        """Whether ``value``, as it was cleaned, is what the row says already."""
        return bool(value == self.read(row))

    def differs(self, before: Any, after: Any) -> bool:
        """Whether an edit changed it."""
        return bool(self.read(before) != self.read(after))

    def wrong(self, message: str, **said: Any) -> Exception:
        return wrong(self.name, message % said if said else message)


@dataclass(frozen=True, kw_only=True)
class Name(Field):
    """What people call it: printable, at most 63 characters."""

    longest: int = 63
    between: str = " "  # it and the number of one that nobody named

    def clean(self, value: Any) -> str:
        text = normalize("NFC", value).strip() if isinstance(value, str) else ""
        if not text:
            raise self.wrong(_("Give it a name."))
        if len(text) > self.longest:
            raise self.wrong(_("At most %(n)d characters."), n=self.longest)
        if not text.isprintable():
            raise self.wrong(_("Only characters that can be printed."))
        return text


@dataclass(frozen=True, kw_only=True)
class Line(Field):
    """A line of text that matches a pattern, or nothing."""

    longest: int = 255
    pattern: str = ""
    refusal: Text = ""
    example: str = ""

    def clean(self, value: Any) -> str:
        text = value.strip() if isinstance(value, str) else ""
        fits = not value or not self.pattern or re.fullmatch(self.pattern, text)
        kept = isinstance(value, str) and len(text) <= self.longest and is_storable(text)
        if not fits or not kept:
            raise self.wrong(str(self.refusal) or _("There is no such thing here."))
        return text


@dataclass(frozen=True, kw_only=True)
class Choice(Field):
    """One of a few words, each with what people read for it."""

    choices: Sequence[tuple[str, Text]] = ()

    def read(self, row: Any) -> str:
        """Return the word itself: a row that is not saved may have the member of a class."""
        return str(getattr(row, self.attribute))

    def clean(self, value: Any) -> str:
        words = [word for word, _label in self.choices]
        if value not in words:
            raise self.wrong(_("One of: %(names)s."), names=", ".join(words))
        return str(value)


@dataclass(frozen=True, kw_only=True)
class Flag(Field):
    """Yes or no."""

    document: ClassVar[type] = bool
    metavar: ClassVar[str] = ""

    def clean(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self.wrong(_("True or false."))
        return value


@dataclass(frozen=True, kw_only=True)
class Count(Field):
    """A whole number inside bounds, kept in the small unit (milli-CPU, MiB)."""

    low: int = 0
    high: int = 1_000_000
    unit: Unit = Unit.NONE
    empty: int | None = None  # what stands for "none", kept as NULL
    document: ClassVar[type] = int
    metavar: ClassVar[str] = "N"

    def clean(self, value: Any) -> int | None:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not self.low <= value <= self.high:
            said = _("A whole number from %(low)d to %(high)d.")
            raise self.wrong(said, low=self.low, high=self.high)
        return None if self.empty is not None and value == self.empty else int(value)


@dataclass(frozen=True, kw_only=True)
class Minutes(Count):
    """A time limit; 0 means none, where the longest one allows that."""

    high: int = 60 * 24 * 366
    unit: Unit = Unit.MINUTES
    empty: int | None = 0

    def clean(self, value: Any, *, longest: int | None = None) -> int | None:
        found = super().clean(value)
        if longest is not None and (found is None or found > longest):
            raise self.wrong(
                ngettext(
                    "This preset allows at most %(n)d minute.",
                    "This preset allows at most %(n)d minutes.",
                    longest,
                )
                % {"n": longest}
            )
        return found


@dataclass(frozen=True, kw_only=True)
class Words(Field):
    """A command or its arguments: a list of words, nothing of it expanded."""

    most: int = 128
    longest: int = 8 * 1024  # bytes of a word
    together: int = 32 * 1024  # bytes of all
    document: ClassVar[type] = list
    metavar: ClassVar[str] = "WORDS"

    def clean(self, value: Any) -> list[str]:
        if not isinstance(value, list | tuple) or not all(map(is_storable, value)):
            raise self.wrong(_("A list of words."))
        if len(value) > self.most:
            raise self.wrong(_("At most %(n)d words."), n=self.most)
        if any(len(word.encode()) > self.longest for word in value):
            raise self.wrong(_("A word is longer than 8 KiB."))
        if sum(len(word.encode()) for word in value) > self.together:
            raise self.wrong(_("All words together are longer than 32 KiB."))
        return list(value)


@dataclass(frozen=True, kw_only=True)
class Lines(Field):
    """Several lines by a rule of their own: patterns, or keys of objects; None: none were said."""

    rule: Callable[[Any], list[str] | None]
    most: int
    longest: int
    document: ClassVar[type] = list

    def clean(self, value: Any) -> list[str] | None:
        return self.rule(value)


@dataclass(frozen=True, kw_only=True)
class Names(Field):
    """Things of the project by name or id; which rows they are is found when it is resolved."""

    most: int = 20
    takes_mappings: bool = False  # each may say more than its name, as {volume, read_only}
    has_usual: bool = False  # where nothing is said, it is given some
    document: ClassVar[type] = list
    metavar: ClassVar[str] = "NAME"

    def clean(self, value: Any) -> list[Any]:
        if not isinstance(value, list | tuple) or len(value) > self.most:
            raise self.wrong(_("A list of at most %(n)d names or ids."), n=self.most)
        return list(value)


@dataclass(frozen=True, kw_only=True)
class Ports(Field):
    """Ports that its program listens on: ``[{port, name, web}]``, a bare number being a web page.
    ``web`` ports open in a browser behind the sign-in.
    """

    most: int = 16
    most_web: int = 8
    low: int = 1024
    high: int = 65535
    reserved: range = range(0)  # Berth's own
    has_usual: bool = False
    document: ClassVar[type] = list
    metavar: ClassVar[str] = "PORT"

    def clean(self, value: Any) -> list[dict[str, Any]]:
        if not isinstance(value, list | tuple):
            raise self.wrong(_("A list of ports."))
        ports = [self._one(item) for item in value]
        if len(ports) > self.most or sum(port["web"] for port in ports) > self.most_web:
            said = _("At most %(n)d ports, %(web)d of them opened in a browser.")
            raise self.wrong(said, n=self.most, web=self.most_web)
        for what in ("port", "name"):
            seen = [port[what] for port in ports]
            if double := next((item for item in seen if seen.count(item) > 1), None):
                raise self.wrong(_("“%(value)s” is there twice."), value=double)
        return ports

    def _one(self, item: Any) -> dict[str, Any]:
        if isinstance(item, int) and not isinstance(item, bool):
            item = {"port": item}
        known = isinstance(item, dict) and not set(item) - {"port", "name", "web"}
        number, web = (item.get("port"), item.get("web", True)) if known else (None, None)
        if isinstance(number, bool) or not isinstance(number, int) or not isinstance(web, bool):
            raise self.wrong(_("Each port has a number, a name and whether it is a web page."))
        if not self.low <= number <= self.high:
            said = _("Ports from %(low)d to %(high)d.")
            raise self.wrong(said, low=self.low, high=self.high)
        if number in self.reserved:
            said = _("The ports from %(low)d to %(high)d are Berth's: choose another one.")
            raise self.wrong(said, low=self.reserved.start, high=self.reserved.stop - 1)
        name = item.get("name") or f"port-{number}"
        if not isinstance(name, str) or not _PORT_NAME.fullmatch(name):
            said = _("The name of a port: small letters, digits and “-”, at most 15 characters.")
            raise self.wrong(said)
        return {"port": number, "name": name, "web": web}


@dataclass(frozen=True, kw_only=True)
class Environment(Field):
    """Variables of the process: names that Berth does not set itself, values of at most 8 KiB."""

    most: int = 100
    longest: int = 8 * 1024  # bytes of a value
    together: int = 64 * 1024  # bytes of all
    document: ClassVar[type] = dict
    metavar: ClassVar[str] = "NAME=VALUE"

    def read(self, row: Any) -> dict[str, str]:
        """Return the values themselves: a sealed column opens when it is asked for them."""
        return dict(getattr(row, self.attribute))

    def clean(self, value: Any) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise self.wrong(_("Variables and their values."))
        if len(value) > self.most:
            raise self.wrong(_("At most %(n)d variables."), n=self.most)
        for name, text in value.items():
            if refusal := self._refused(name, text):
                raise self.wrong(refusal, name=name if is_env_name(name) else str(name)[:40])
        if sum(len(k) + len(v.encode()) for k, v in value.items()) > self.together:
            raise self.wrong(_("All variables together are longer than 64 KiB."))
        return dict(value)

    def _refused(self, name: Any, text: Any) -> str:
        if not is_env_name(name):
            return _(
                "“%(name)s” is no name of a variable: letters, digits and _, not a digit first."
            )
        if is_env_refused(name):
            return _(
                "“%(name)s” cannot be set: Berth sets it itself, because it decides which code "
                "is loaded, which GPUs are seen, or who the workspace is."
            )
        if not is_storable(text):
            return _("The value of “%(name)s” must be text.")
        if len(text.encode()) > self.longest:
            return _("The value of “%(name)s” is longer than 8 KiB.")
        return ""


@dataclass(frozen=True, kw_only=True)
class Devices(Field):
    """Kinds of GPU, any of which will do, the preferred one first; kept as one text."""

    most: int = 8
    longest: int = 255
    metavar: ClassVar[str] = "KIND"

    def clean(self, value: Any) -> str:
        names = names_in(value) if isinstance(value, str) else None
        joined = ",".join(names or ())
        if names is None or len(names) > self.most or len(joined) > self.longest:
            raise self.wrong(_("There is no such kind of GPU."))
        return joined


class Table:
    """The fields of one kind, in the order in which people read them."""

    def __init__(self, *fields: Field) -> None:
        self._fields = {field.name: field for field in fields}

    def __iter__(self) -> Iterator[Field]:
        return iter(self._fields.values())

    def __getitem__(self, name: str) -> Field:
        return self._fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def but(self, *names: str) -> Table:
        return Table(*(field for field in self if field.name not in names))

    def clean(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was said with every rule applied; what is None was not said."""
        for name in said:
            if name not in self:
                raise wrong(name, _("There is no such field."))
        return {name: self[name].clean(v) for name, v in said.items() if v is not None}

    def read(self, row: Any, *, private: bool) -> dict[str, Any]:
        """Return what a row says; ``private`` False leaves out what its owner alone may read."""
        return {f.name: f.read(row) for f in self if private or not f.private}


def is_storable(text: Any) -> bool:
    """Whether it is text that every database keeps: no NUL, no half of a surrogate pair."""
    return isinstance(text, str) and re.search("[\x00\ud800-\udfff]", text) is None
