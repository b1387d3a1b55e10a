"""What somebody wants of a workspace: the one shape behind form, YAML, CLI and API.

Pure: no ORM and no HTTP here, so the rules can be read and tested as rules.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.envnames import is_name, is_refused
from common.errors import wrong
from notebooks.choices import WorkspaceKind
from placement.request import Request
from runtime.protocol import Resources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_NAME = 63
MAX_ENV_VARIABLES = 100
MAX_ENV_VALUE = 8 * 1024
MAX_ENV_TOTAL = 64 * 1024
MAX_MINUTES = 60 * 24 * 366


@dataclass(frozen=True)
class Wanted:
    """A partial specification. None means: as the preset (or the row, in an edit) says.

    ``time_limit_minutes`` 0 means "no time limit", where the preset allows that.
    """

    name: str | None = None
    environment: str | None = None
    cpu_milli: int | None = None
    memory_mib: int | None = None
    gpus: int | None = None
    gpu_flavor: str | None = None
    env: Mapping[str, str] | None = None
    time_limit_minutes: int | None = None
    kind: str | None = None
    cluster: str | None = None
    image: str | None = None
    command: Sequence[str] | None = None
    args: Sequence[str] | None = None
    ports: Sequence[Any] | None = None
    shm_mib: int | None = None
    pool: str | None = None
    network: str | None = None
    # by name or id; ``notebooks.services.attaching`` knows what may be said
    volumes: Sequence[Any] | None = None
    credentials: Sequence[str] | None = None
    needs: Sequence[str] | None = None
    newest_image: bool | None = None  # of an edit: what the image's tag means now

    def given(self) -> dict[str, Any]:
        """Return only what was said."""
        pairs = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {name: value for name, value in pairs if value is not None}


@dataclass(frozen=True)
class Spec:
    """A whole specification: every field has a value."""

    environment: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_flavor: str
    env: Mapping[str, str]
    time_limit_minutes: int | None
    kind: str = WorkspaceKind.NOTEBOOK.value
    cluster: str = ""
    image: str = ""
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    ports: Sequence[Mapping[str, Any]] = ()
    shm_mib: int = 0
    pool: str = ""
    network: str = ""

    @property
    def is_container(self) -> bool:
        return self.kind == WorkspaceKind.CONTAINER

    @property
    def size(self) -> Resources:
        return Resources(self.cpu_milli, self.memory_mib, self.gpus, self.gpu_flavor)

    @property
    def request(self) -> Request:
        """What decides where it may go."""
        return Request.of_size(self.kind, self.size, pool=self.pool, network=self.network)


# What a form, a file and an answer of the API tell besides the environment's values.
PUBLIC = (
    *("kind", "cluster", "environment", "image", "command", "args", "ports"),
    *("cpu_milli", "memory_mib", "gpus", "gpu_flavor", "shm_mib", "pool", "network"),
    "time_limit_minutes",
)
PRIVATE = ("env", "command", "args")  # to the owner: secrets are written into all three
LISTS = frozenset({"command", "args", "ports"})
# Kind and cluster are chosen once: the home lies on that cluster.
FIXED = frozenset({"kind", "cluster"})
# What is attached; each is resolved to a row that its owner may use.
ATTACHED = ("volumes", "credentials", "needs")
# Changing one of these needs a new process.
RESTARTING = frozenset({*PUBLIC, "env"}) - FIXED - {"time_limit_minutes"}


def clean_name(name: str) -> str:
    """Return the name without surrounding space, or raise Invalid with the field."""
    text = name.strip()
    if not text:
        raise wrong("name", _("Give it a name."))
    if len(text) > MAX_NAME:
        raise wrong("name", _("At most %(n)d characters.") % {"n": MAX_NAME})
    if not text.isprintable():
        raise wrong("name", _("Only characters that can be printed."))
    return text


def is_storable(text: str) -> bool:
    """Whether every database keeps it: no NUL, no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def clean_env(env: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables, or raise Invalid that names the first bad one and says why."""
    if len(env) > MAX_ENV_VARIABLES:
        raise wrong("env", _("At most %(n)d variables.") % {"n": MAX_ENV_VARIABLES})
    cleaned: dict[str, str] = {}
    for name, value in env.items():
        cleaned[_env_name(name)] = _env_value(name, value)
    if sum(len(k) + len(v.encode()) for k, v in cleaned.items()) > MAX_ENV_TOTAL:
        raise wrong("env", _("All variables together are longer than 64 KiB."))
    return cleaned


def _env_name(name: Any) -> str:
    if not is_name(name):
        raise wrong(
            "env",
            _("“%(name)s” is no name of a variable: letters, digits and _, not a digit first.")
            % {"name": str(name)[:40]},
        )
    if is_refused(name):
        raise wrong(
            "env",
            _(
                "“%(name)s” cannot be set: Berth sets it itself, because it decides which code "
                "is loaded, which GPUs are seen, or who the workspace is."
            )
            % {"name": name},
        )
    return name


def _env_value(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise wrong("env", _("The value of “%(name)s” must be text.") % {"name": name})
    if not is_storable(value):
        raise wrong(
            "env", _("The value of “%(name)s” holds something that is not text.") % {"name": name}
        )
    if len(value.encode()) > MAX_ENV_VALUE:
        raise wrong("env", _("The value of “%(name)s” is longer than 8 KiB.") % {"name": name})
    return value


def clean_time_limit(asked: int | None, *, default: int | None, longest: int | None) -> int | None:
    """Return the limit in minutes, None for none; Invalid when the preset forbids it."""
    if asked is None:
        return default
    if asked < 0 or asked > MAX_MINUTES:
        raise wrong("time_limit_minutes", _("A number of minutes, at most one year."))
    if longest is not None and (asked == 0 or asked > longest):
        raise wrong(
            "time_limit_minutes",
            ngettext(
                "This preset allows at most %(n)d minute.",
                "This preset allows at most %(n)d minutes.",
                longest,
            )
            % {"n": longest},
        )
    return asked or None


def clean_count(field: str, value: Any, *, low: int, high: int) -> int:
    """Return a whole number inside the bounds, or raise Invalid with both of them."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise wrong(
            field,
            _("A whole number from %(low)d to %(high)d.") % {"low": low, "high": high},
        )
    return value
