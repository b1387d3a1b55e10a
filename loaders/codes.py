"""What the words of the copying program mean to people: how a run ended, what an object lacks."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from runtime import reasons


@dataclass(frozen=True)
class Meaning:
    """``text``: what happened. ``advice``: what to do."""

    text: Promise | str
    advice: Promise | str = ""


ENDS: dict[str, Meaning] = {
    "done": Meaning(_("Everything is there.")),
    "partial": Meaning(
        _("Some objects could not be copied; all the others are there."),
        _("Look at the names below, mend what they need, then try the failed ones again."),
    ),
    "denied": Meaning(
        _("The store refused the credential."),
        _(
            "Test the credential; it needs the right to list the bucket and to read it. Objects"
            " that are named one by one need no right to list."
        ),
    ),
    "no-bucket": Meaning(
        _("There is no such bucket or folder, or the credential may not see it."),
        _("Check the name of the bucket or the path, the region and the credential."),
    ),
    "disk-full": Meaning(
        _("The storage is full. What was copied stays."),
        _("Free some space, then resume: it goes on with the rest."),
    ),
    "quota": Meaning(
        _("The volume is full. What was copied stays."),
        _("Delete files or make the volume larger, then resume: it goes on with the rest."),
    ),
    "unreachable": Meaning(
        _("The store did not answer."),
        _("Check the address and whether the store is up, then resume."),
    ),
    "refused-address": Meaning(
        _("The store's address is not one that may be reached from here."),
        _("Only public addresses may; an operator can open others."),
    ),
    "closed-network": Meaning(
        _("The cluster's network policy does not let loads reach the store's address."),
        _("An operator can open it: “Allowed addresses” in the settings of the cluster."),
    ),
    "bad-plan": Meaning(
        _("The load can't run as it is described."), _("Change what the message names.")
    ),
    "stopped": Meaning(
        _("It was interrupted. What was copied stays."), _("Resume it: it goes on with the rest.")
    ),
    "endless-listing": Meaning(
        _("The store's listing does not come to an end."),
        _("Name a folder further down, or tell whoever runs the store."),
    ),
    "clock-skew": Meaning(
        _("The clocks of the store and of the machine differ too much for signed requests."),
        _("Tell an operator: the machine's clock must be set."),
    ),
    "internal": Meaning(
        _("The copying program failed."),
        _("Resume it. If it fails again, tell an operator; the log has the cause."),
    ),
    "credential-gone": Meaning(
        _("Its credential was removed."), _("Choose another credential in its settings.")
    ),
}

OBJECTS: dict[str, Promise | str] = {
    "bad-key": _("its key can't be a file's name"),
    "name-clash": _("another object has the same name here"),
    "checksum": _("its content did not match its checksum"),
    "length": _("its length was not what the store said"),
    "denied": _("the store refused it"),
    "gone": _("it is not there any more"),
    "unreadable": _("it may not be read"),
    "too-large": _("it is too large for the store or the volume"),
    "io": _("it could not be read or written"),
    "changed": _("it changed while it was copied"),
    "unreachable": _("the store did not answer for it"),
    "missing": _("it is not there any more, although it was copied"),
}

VERIFIED: dict[str, Promise | str] = {
    "crc64nvme": _("CRC-64/NVME"),
    "crc32c": _("CRC-32C"),
    "crc32": _("CRC-32"),
    "sha256": _("SHA-256"),
    "sha1": _("SHA-1"),
    "md5": _("MD5"),
    "multipart-md5": _("MD5 of its parts"),
    "md5-of-crcs": _("HDFS's MD5 of CRCs"),
    "length": _("length only: the store gave no checksum"),
}


def meaning_of(code: str) -> Meaning:
    """Return what a code says; the engine's own reasons are among them."""
    known = ENDS.get(code)
    if known is not None:
        return known
    info = reasons.info(code)
    return Meaning(info.text or _("It ended with an error."), info.advice)


def object_text(code: str) -> str:
    return str(OBJECTS.get(code, code))
