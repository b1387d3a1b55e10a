"""Kinds of settings: what a value may be, said as the end of “BERTH_… must be …”.

A kind reads the text of one setting. ``Wrong`` says what the text should have been; it never
carries the text itself, which may be secret. Knows no Django: settings are read before it.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dataplane.addresses import PORT_MAX, NotAHost, opening, split_host

YES, NO = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}
_HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_IPV6 = re.compile(r"\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]?")
_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


class Wrong(ValueError):  # noqa: N818 - reads as a sentence where it is raised
    """A value that is not of its kind; the text says what it must be."""


@dataclass(frozen=True)
class Kind:
    """How the text of a setting is read, and what it must be."""

    said: str  # “BERTH_… must be <said>.”
    read: Callable[[str], Any]  # raises ValueError, or Wrong to say something else
    holds: type  # of what ``read`` gives: str, int, bool, list, dict
    empty: bool = False  # whether "" is a value; otherwise it means that nothing is set


def text(said: str = "text", fits: Callable[[str], object] = lambda _: True) -> Kind:
    """Any text that ``fits``."""

    def read(raw: str) -> str:
        _demand(fits(raw))
        return raw

    return Kind(said, read, str)


def matching(said: str, pattern: "str | re.Pattern[str]") -> Kind:
    return text(said, lambda raw: re.fullmatch(pattern, raw))


def anything() -> Kind:
    """Text of which nothing is asked; empty text is a value too."""
    return Kind("text", str, str, empty=True)


def path() -> Kind:
    return text("the path of a file or a folder", lambda raw: "\0" not in raw)


def choice(*words: str) -> Kind:
    return text(f"{', '.join(words[:-1])} or {words[-1]}", lambda raw: raw in words)


def whole(least: int, most: int | None = None, unit: str = "") -> Kind:
    """A whole number from ``least`` to ``most`` (or without an upper end)."""
    number = f"a whole number of {unit}" if unit else "a whole number"
    ends = f" from {least} to {most}" if most is not None else f", {least} or more"

    def read(raw: str) -> int:
        value = int(raw)
        _demand(least <= value <= (value if most is None else most))
        return value

    return Kind(number + ends, read, int)


def port(least: int = 1) -> Kind:
    return whole(least, PORT_MAX)


def yes_or_no() -> Kind:
    def read(raw: str) -> bool:
        word = raw.strip().lower()
        _demand(word in YES | NO)
        return word in YES

    return Kind("yes or no", read, bool)


def address(*schemes: str, origin: bool = False) -> Kind:
    """The address of a server; ``origin``: nothing behind its host and port."""
    ends = ", without a path" if origin else ""
    said = f"an address like {schemes[-1]}://host.example{ends}"

    def fits(raw: str) -> bool:
        parts = urlsplit(raw)
        _ = parts.port  # a ValueError where it is no port
        plain = not (parts.query or parts.fragment or parts.username or re.search(r"\s", raw))
        short = not origin or parts.path in {"", "/"}
        return parts.scheme in schemes and _is_host(parts.hostname or "") and plain and short

    return text(said, fits)


def service(said: str, *schemes: str) -> Kind:
    """The address of a database or a broker, often with a password in it."""

    def fits(raw: str) -> bool:
        parts = urlsplit(raw)
        _ = parts.port
        return parts.scheme in schemes and bool(parts.netloc or parts.path.strip("/"))

    return text(said, fits)


def host() -> Kind:
    return text("the name or the address of a host", _is_host)


def words(said: str, fits: Callable[[str], object] = lambda _: True) -> Kind:
    """A list, separated by commas, of which each word ``fits``."""

    def read(raw: str) -> list[str]:
        found = [word.strip() for word in raw.split(",") if word.strip()]
        _demand(all(fits(word) for word in found))
        return found

    return Kind(f"{said}, separated by commas", read, list, empty=True)


def hosts() -> Kind:
    """Names that a server answers to; ``*`` and ``.example.org`` as Django has them."""
    return words(
        "names of hosts", lambda word: word == "*" or _is_host(word.removeprefix(".").strip("[]"))
    )


def hosts_and_ports() -> Kind:
    def fits(word: str) -> bool:
        try:
            return bool(split_host(word, default_port=80))
        except NotAHost as error:
            raise Wrong from error

    return words("host:port", fits)


def ports() -> Kind:
    return words("numbers of ports", lambda word: word.isdecimal() and 1 <= int(word) <= PORT_MAX)


def ranges() -> Kind:
    return words("ranges like 10.1.0.0/16 or 10.1.2.3:5000", opening)


def origins() -> Kind:
    return words(
        "addresses like https://host.example",
        lambda word: re.fullmatch(r"https?://(\*\.)?[A-Za-z0-9.\[\]:-]+", word),
    )


def addresses() -> Kind:
    one = address("https", "http")
    return words("addresses like http://127.0.0.1:8003", one.read)


def key(least: int) -> Kind:
    """What others must not guess."""
    return text(f"at least {least} characters that nobody guesses", lambda raw: len(raw) >= least)


def keys(least: int) -> Kind:
    """Keys of which the first is used; older ones may be as short as they are."""

    def read(raw: str) -> list[str]:
        found: list[str] = words("").read(raw)
        _demand(not found or len(found[0]) >= least)
        return found

    said = f"keys, separated by commas, the first of at least {least} characters"
    return Kind(said, read, list, empty=True)


def token() -> Kind:
    """What is sent in a header of HTTP."""
    return matching("text without spaces", r"[!-~]*")


def sealing_key() -> Kind:
    from common.sealing import key_id

    return text("a key that Berth made", _sealing(key_id))


def sealing_keys() -> Kind:
    from common.sealing import public_of

    return words("keys that Berth made", _sealing(public_of))


def mail_address() -> Kind:
    return matching("an address like berth@host.example", r"([^<>@]*<)?[^\s<>@]+@[^\s<>@]+>?")


def dotted() -> Kind:
    return matching("the dotted name of a class", _CLASS)


def service_and_port() -> Kind:
    said = "namespace/service:port"
    pattern = re.compile(r"[a-z0-9-]{1,63}/[a-z0-9-]{1,63}:(\d{1,5})")

    def fits(raw: str) -> bool:
        found = pattern.fullmatch(raw)
        return bool(found and 1 <= int(found[1]) <= PORT_MAX)

    return text(said, fits)


def json_object() -> Kind:
    def read(raw: str) -> dict[str, Any]:
        value = json.loads(raw)
        _demand(isinstance(value, dict))
        return dict(value)

    return Kind("a JSON object", read, dict)


def currency() -> Kind:
    def fits(raw: str) -> bool:
        from babel.numbers import is_currency

        return is_currency(raw)

    return text("a code of ISO 4217 in capitals (USD, EUR, JPY …)", fits)


def _sealing(of: Callable[[str], str]) -> Callable[[str], bool]:
    def fits(word: str) -> bool:
        from common.sealing import SealError

        try:
            return bool(of(word))
        except SealError as error:
            raise Wrong from error

    return fits


def _is_host(text: str) -> bool:
    return bool(_HOST.fullmatch(text) or _IPV6.fullmatch(text))


def _demand(fits: object) -> None:
    if not fits:
        raise Wrong


# One row of the table of settings.


DERIVED = object()  # the default follows from other settings; it is said where it is read


@dataclass(frozen=True)
class Setting:
    """What there is to know of one setting; ``meaning`` is a line of docs/settings.md."""

    name: str  # without BERTH_
    kind: Kind
    default: Any
    meaning: str
    otherwise: str = ""  # how the default is said; "": as it is
    secret: bool = False  # its value is in no message
    of: str = ""  # the processes that are given it; "": all

    @property
    def variable(self) -> str:
        return f"BERTH_{self.name}"

    @property
    def said_default(self) -> str:
        """The default as the page has it."""
        if self.otherwise:
            return self.otherwise
        if isinstance(self.default, bool):
            return "yes" if self.default else "no"
        if isinstance(self.default, list):
            return f"`{','.join(self.default)}`" if self.default else ""
        return f"`{self.default}`" if self.default != "" else ""
