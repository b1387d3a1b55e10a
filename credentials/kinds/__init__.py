"""Every kind of credential, by what it is called."""

from django.utils.translation import gettext as _

from common.errors import wrong
from credentials.choices import CredentialKind
from credentials.kinds import gcs, generic, git, hdfs, registry, s3, ssh
from credentials.kinds.base import TOLD, Field, Given, Kind, Part, Read, Shape

KINDS: dict[str, Kind] = {
    str(made.kind.value): made
    for made in (
        s3.AMAZON,
        s3.COMPATIBLE,
        gcs.KIND,
        hdfs.KIND,
        registry.KIND,
        git.KIND,
        ssh.KIND,
        generic.KIND,
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
