"""What the words mean that the file browser's server refuses with, in the reader's language."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

WORDS: dict[str, Promise] = {
    "archive-many": _("There is more in this archive than can be unpacked here."),
    "archive-odd": _("A header of this archive is too large; it is not unpacked."),
    "bad-path": _("This is not a path below the volume."),
    "bad-request": _("The request is not understood."),
    "berth-own": _("This folder is Berth's own; it goes when it is not needed."),
    "bomb": _("This archive unpacks to far more than it can honestly hold; nothing was unpacked."),
    "broken-archive": _("This archive is damaged; nothing was unpacked."),
    "busy": _("Too much of the volume is being looked through at once; try again in a moment."),
    "changed": _("The archive was changed while it was unpacked; nothing was kept."),
    "checksum": _("What arrived is not what was sent. Nothing was kept; upload it again."),
    "denied": _("The file system does not allow this."),
    "disk-full": _("The storage has not enough room left for this."),
    "exists": _("Something of this name is there already."),
    "in-use": _("This is in use; try again in a moment."),
    "into-itself": _("A folder can't be put into itself."),
    "io": _("The storage reports an error; try again."),
    "is-folder": _("This is a folder."),
    "link": _("This leads through a link; links are shown and never followed."),
    "missing": _("There is nothing of this name any more."),
    "no-length": _("Say how long the request is (Content-Length)."),
    "no-such-act": _("There is no such act."),
    "no-undo": _("This was deleted for good already."),
    "no-upload": _("This upload is not known any more; begin again."),
    "not-archive": _("This is not a zip or tar archive that can be unpacked."),
    "not-folder": _("This is not a folder."),
    "not-image": _("This is not a picture that can be shown."),
    "not-possible": _("The file system can't do this here."),
    "offset": _("This piece does not follow what is there."),
    "other": _("This is not an ordinary file."),
    "quota": _("The volume's size leaves no room for this. Delete files or make it larger."),
    "range": _("There is no such part of the file."),
    "read-only": _("You may look into this volume, not change its files."),
    "short": _("Not all of it arrived; it can be gone on with."),
    "special": _("This is not an ordinary file; it is never opened."),
    "too-large": _("This is too large."),
    "too-long": _("This name or path is too long."),
    "too-many": _("These are too many at once."),
}


def sentence(code: str, otherwise: str = "") -> str:
    found = WORDS.get(code)
    return otherwise if found is None else str(found)
