"""Files of a version that a person sends from this computer, by the uploader of the files page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from files.below import MOST
from files.words import texts

if TYPE_CHECKING:
    from django.utils.functional import Promise

    from accounts.principal import Principal
    from serving.models import ModelVersion

_TEXTS: dict[str, Promise] = {
    "archive": _("“%(name)s” is an archive. Unpack it and choose the folder that is in it."),
    "many": _("A model has at most %(most)s. Choose the folder of the model alone."),
    "none": _("There are no files in this folder."),
    "to_send": _("To be sent: %(files)s, %(size)s (%(names)s)."),
    "room": _(
        "This takes %(size)s and the volume “%(volume)s” has room for %(free)s. Make it larger or "
        "delete files there; then choose the files again."
    ),
    "giving_up": _("What has arrived is being removed…"),
    "others_title": _("What should become of the other files?"),
    "others": _("%(files)s that you have not chosen are in its folder already: %(names)s."),
    "others_one": _("A file that you have not chosen is in its folder already: %(names)s."),
    "others_keep": _("Keep them, and send"),
    "others_remove": _("Remove them, and send"),
    "arrived": _(
        "Its files have all arrived meanwhile, so nothing was removed: delete it instead."
    ),
    "left": _(
        "It is not registered any more, but what has arrived is still in %(folder)s: %(why)s "
        "Delete it there."
    ),
}


def texts_of_sending() -> dict[str, Any]:
    """Return what the script ``sending.js`` says, and how many files it takes."""
    said = texts() | {key: str(text) for key, text in _TEXTS.items()}
    return {"words": json.dumps(said, ensure_ascii=False), "most": MOST}


def sending_of(who: Principal, row: ModelVersion) -> dict[str, str]:
    """Return where its files go, for the script."""
    assert row.volume is not None  # noqa: S101 - of an upload there is one
    keys = {"project": row.model.project.slug, "volume": row.volume.uid}
    return {
        "session": reverse("files:session", kwargs=keys),
        "volume": str(row.volume.uid),
        "title": row.volume.name,
        "folder": row.folder,
        "page": row.get_absolute_url(),
        "mine": "yes" if row.created_by_id in {None, who.user.pk} else "",
    }
