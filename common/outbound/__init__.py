"""The one way out: how Berth reaches an address that a user wrote.

A name is resolved once, every answer is checked, and the socket is opened to that very address,
so that a second answer of the name server changes nothing. Redirects are never followed,
proxies and ``.netrc`` of the machine are never used, and time and size are bounded. Only the
operator's settings on disk may open a private range.
"""

from common.outbound.addresses import Policy, policy_from_settings, split_host
from common.outbound.client import Answer, Bounds, Client
from common.outbound.errors import OutboundError, Trouble

__all__ = [
    "Answer",
    "Bounds",
    "Client",
    "OutboundError",
    "Policy",
    "Trouble",
    "policy_from_settings",
    "split_host",
]
