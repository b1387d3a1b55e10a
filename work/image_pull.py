"""How far the fetch of an image is: its size, where a registry said it, and the time so far.

Container runtimes tell no more, so there is no percent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Max
from django.utils.translation import gettext as _

from common.clock import now
from common.templatetags.berth import duration, filesize
from images.models import ImageFacts
from runtime.reasons import Reason


@dataclass(frozen=True)
class Pull:
    """``size_bytes`` None: nobody looked the image up, or its registry did not say."""

    since: datetime
    size_bytes: int | None

    @property
    def sentence(self) -> str:
        if self.size_bytes is None:
            return _("Pulling the image.")
        return _("Pulling the image (%(size)s).") % {"size": filesize(self.size_bytes)}

    @property
    def sentence_so_far(self) -> str:
        """With the time, for what is read at this moment."""
        time = duration(int((now() - self.since).total_seconds()) or 1)
        if self.size_bytes is None:
            return _("Pulling the image for %(time)s.") % {"time": time}
        size = filesize(self.size_bytes)
        return _("Pulling the image (%(size)s) for %(time)s.") % {"size": size, "time": time}


def pull_of(reason: str, noted: Mapping[str, Any] | None) -> Pull | None:
    """Return the fetch that is on its way, from what the engine noted of it."""
    if reason != Reason.PULLING or not noted:
        return None
    since = datetime.fromtimestamp(float(noted["since"]), tz=UTC)
    return Pull(since, noted.get("bytes"))


def image_bytes(digest: str) -> int | None:
    """Return what a node has to fetch of an image; of several kinds of machine the most."""
    if not digest:
        return None
    found = ImageFacts.objects.filter(digest=digest).aggregate(most=Max("size_bytes"))
    return found["most"] or None
