"""Names of registries as people write them."""

from django.utils.translation import gettext as _

from common.errors import wrong
from common.oci.reference import BadReference, host_of


def registry_host(text: str, *, field: str = "host") -> str:
    """Return ``host`` or ``host:port`` as image references spell it, or raise Invalid."""
    bare = text.strip().removeprefix("https://").rstrip("/").removesuffix("/v1")
    try:
        return host_of(bare)
    except BadReference:
        sentence = _("The host of a registry, as in registry.example.com or ghcr.io.")
        raise wrong(field, sentence) from None
