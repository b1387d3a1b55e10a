"""What may be said of a workspace: its fields, in the order in which people read them."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext_lazy as _

from notebooks.choices import WorkspaceKind
from work import fields as f
from work import standard_fields as s

# The n-th web port is guarded by a sidecar that listens on SIDECAR_BASE + n.
SIDECAR_BASE = 8888
MAX_WEB_PORTS = 8

VARIANT = f.Choice(
    name="kind",
    label=_("What runs"),
    column="variant",
    choices=WorkspaceKind.choices,
    edit=f.Edit.NEVER,
)
PORTS = f.Ports(
    name="ports",
    label=_("Ports"),
    form_help=_(
        "One on each line, with a name if you like. Each opens as a page behind the sign-in; "
        "write “private” after one that is none."
    ),
    most_web=MAX_WEB_PORTS,
    reserved=range(SIDECAR_BASE + 1, SIDECAR_BASE + 1 + MAX_WEB_PORTS),
    quiet=True,
)
# What is not in this table cannot be asked for: there is no field for privileges, host paths,
# host networks, service accounts, node names or tolerations.
TABLE = f.Table(
    *(s.NAME, VARIANT, s.CLUSTER, s.ENVIRONMENT, s.IMAGE, s.COMMAND, s.ARGS, PORTS),
    *(*s.SIZE, s.POOL, s.NETWORK, s.TIME_LIMIT, s.ENV, *s.ATTACHED),
)


def sidecar_port(ports: Sequence[Mapping[str, Any]], number: int) -> int:
    """Return where the sign-in of web port ``number`` listens."""
    web = [port["port"] for port in ports if port.get("web")]
    return SIDECAR_BASE + 1 + web.index(number)
