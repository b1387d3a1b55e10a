"""What pages call the causes of the ledger, and what each of them means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django.utils.functional import Promise

# cause → (its name, what it means)
CAUSES: dict[str, tuple[Promise, Promise]] = {
    "computing": (_("Computing"), _("Held and busy: the part that was utilised.")),
    "underused": (_("Busy, but not fully"), _("The rest of minutes in which it was busy.")),
    "idle": (_("Held idle"), _("Held, measured, and not in use.")),
    "unknown": (_("Not measured"), _("Held; whether it was in use is not known.")),
    "pull": (_("Fetching the image"), _("Held while the image was fetched.")),
    "start": (_("Starting"), _("Held until it was ready.")),
    "crash": (_("Crashed"), _("It ended by itself and was started again, or never was ready.")),
    "repeated": (
        _("Taken away and repeated"),
        _("Computed in the last day before its place was taken, and the time until it ran again."),
    ),
    "stop": (_("Ending"), _("Told to end, and not gone yet.")),
    "fragmented": (
        _("Free in pieces"),
        _("Free, but in pieces too small for what waited."),
    ),
    "held_back": (
        _("Kept back by rules"),
        _("Free while work that fits waited: limits, budgets or guarantees kept it back."),
    ),
    "unasked": (_("Free, nobody asked"), _("Free while nothing that could use it waited.")),
    "out": (_("Out of service"), _("On nodes that are not up.")),
    "others": (_("Held by others"), _("Held by what Berth did not start.")),
}
