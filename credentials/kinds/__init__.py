"""Every kind of credential, by what it is called."""

from django.utils.translation import gettext as _

from common.errors import wrong
from credentials.choices import CredentialKind
from credentials.kinds import gcs, git, others, stores
from credentials.kinds.base import TOLD, Field, Given, Kind, Part, Read, Shape

KINDS: dict[str, Kind] = {
    str(made.kind.value): made
    for made in (
        stores.AMAZON,
        stores.COMPATIBLE,
        gcs.KIND,
        stores.HDFS,
        stores.MLFLOW,
        others.REGISTRY,
        git.GIT,
        git.SSH,
        others.GENERIC,
    )
}


def kind_of(name: str) -> Kind:
    """Return the kind, or raise Invalid with the field."""
    if name not in KINDS:
        known = ", ".join(CredentialKind.values)
        raise wrong("kind", _("One of: %(known)s.") % {"known": known})
    return KINDS[name]


__all__ = [
    "KINDS",
    "TOLD",
    "Field",
    "Given",
    "Kind",
    "Part",
    "Read",
    "Shape",
    "kind_of",
]
