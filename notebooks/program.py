"""What may be said of a program on a cluster: image, command, ports, kinds of GPU.

Pure, like ``notebooks.spec``. What is not in this list cannot be asked for: there is no field for
privileges, host paths, host networks, service accounts, node names or tolerations.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from common.errors import wrong
from placement.decision import names_in
from work.standard_fields import ARGS, COMMAND, IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_WORDS = COMMAND.most
MAX_WORD = COMMAND.longest
MAX_PORTS = 16
MAX_WEB_PORTS = 8
MAX_FLAVORS = 8
MAX_FLAVOR_TEXT = 255
LOWEST_PORT, HIGHEST_PORT = 1024, 65535
# The n-th web port is guarded by a sidecar that listens on SIDECAR_BASE + n.
SIDECAR_BASE = 8888
RESERVED_PORTS = range(SIDECAR_BASE + 1, SIDECAR_BASE + 1 + MAX_WEB_PORTS)

_WORDS = {field.name: field for field in (COMMAND, ARGS)}
_PORT_NAME = re.compile(r"\A[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?\Z")
_SLUG = re.compile(r"\A[a-z0-9]([-a-z0-9._]{0,61}[a-z0-9])?\Z")
_PORT_FIELDS = {"port", "name", "web"}


def clean_image(value: Any) -> str:
    """Return a reference as it was written; whether it exists is asked elsewhere."""
    return IMAGE.clean(value if isinstance(value, str) or value else "")


def pinned_tag(image: str, digest: str) -> str:
    """Return the digest that stands for the image's tag; empty where none does."""
    return "" if not image or "@" in image else digest


def clean_words(field: str, value: Any) -> list[str]:
    """Return a command (or its arguments) as a list of words."""
    return _WORDS[field].clean(value)


def clean_ports(value: Any) -> list[dict[str, Any]]:
    """Return the ports; a bare number is a web port."""
    if not isinstance(value, list | tuple):
        raise wrong("ports", _("A list of ports."))
    ports = [_port(item) for item in value]
    if len(ports) > MAX_PORTS or sum(p["web"] for p in ports) > MAX_WEB_PORTS:
        raise wrong(
            "ports",
            _("At most %(n)d ports, %(web)d of them opened in a browser.")
            % {"n": MAX_PORTS, "web": MAX_WEB_PORTS},
        )
    for what in ("port", "name"):
        seen = [port[what] for port in ports]
        if double := next((item for item in seen if seen.count(item) > 1), None):
            raise wrong("ports", _("“%(value)s” is there twice.") % {"value": double})
    return ports


def _port(item: Any) -> dict[str, Any]:
    if isinstance(item, int) and not isinstance(item, bool):
        item = {"port": item}
    if not isinstance(item, dict) or set(item) - _PORT_FIELDS:
        raise wrong("ports", _("Each port has a number, a name and whether it is a web page."))
    number, web = item.get("port"), item.get("web", True)
    if isinstance(number, bool) or not isinstance(number, int) or not isinstance(web, bool):
        raise wrong("ports", _("Each port has a number, a name and whether it is a web page."))
    if not LOWEST_PORT <= number <= HIGHEST_PORT:
        raise wrong(
            "ports",
            _("Ports from %(low)d to %(high)d.") % {"low": LOWEST_PORT, "high": HIGHEST_PORT},
        )
    if number in RESERVED_PORTS:
        raise wrong(
            "ports",
            _("The ports from %(low)d to %(high)d are Berth's: choose another one.")
            % {"low": RESERVED_PORTS.start, "high": RESERVED_PORTS.stop - 1},
        )
    name = item.get("name") or f"port-{number}"
    if not isinstance(name, str) or not _PORT_NAME.match(name):
        raise wrong(
            "ports", _("The name of a port: small letters, digits and “-”, at most 15 characters.")
        )
    return {"port": number, "name": name, "web": web}


def sidecar_port(ports: Sequence[Mapping[str, Any]], number: int) -> int:
    """Return where the sign-in of web port ``number`` listens."""
    web = [port["port"] for port in ports if port.get("web")]
    return SIDECAR_BASE + 1 + web.index(number)


def clean_flavors(text: Any, known: Iterable[str]) -> str:
    """Return the kinds in one text, each of them known."""
    if not isinstance(text, str):
        raise wrong("gpu_flavor", _("There is no such kind of GPU."))
    names = names_in(text)
    joined = ",".join(names)
    if set(names) - set(known) or len(joined) > MAX_FLAVOR_TEXT or len(names) > MAX_FLAVORS:
        raise wrong("gpu_flavor", _("There is no such kind of GPU."))
    return joined


def clean_slug(field: str, value: Any) -> str:
    """Return the name of a cluster, pool or network, or an empty text."""
    if value in {None, ""}:
        return ""
    if not isinstance(value, str) or not _SLUG.match(value):
        raise wrong(field, _("There is no such thing here."))
    return value
