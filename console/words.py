"""Words for people in place of the words of programs: drivers, duties, answers.

What has no words is shown as it is. Kinds of work and of objects: ``clusters.wording``.
"""

import re

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

DRIVERS: dict[str, Promise | str] = {
    "kubernetes": "Kubernetes",
    "local": _("one machine"),
    "fake": _("demonstration, nothing really runs"),
}

# What one worker at a time does: portal.server.duties, and the leases of runtime and clusters.
DUTIES: dict[str, Promise] = {
    "audit-seal": _("Seals the audit log"),
    "beat": _("Sends periodic work"),
    "budget-days": _("Sums up by day which GPU-hours were used"),
    "budgets": _("Looks which budgets of GPU-hours are spent"),
    "checks": _("Self-check of %(of)s"),
    "cluster-checks": _("Runs the self-checks of clusters"),
    "cluster-farewells": _("Tidies clusters that were detached"),
    "farewell": _("Tidies a detached cluster"),
    "endpoints": _("Scales endpoints, lets them sleep, and moves canaries on"),
    "experiments": _("Steers searches for parameters"),
    "files-idle": _("Ends file browsers that nobody uses"),
    "health": _("Asks clusters and machines whether they answer"),
    "housekeeping": _("Removes what is too old to keep"),
    "job-events": _("Reads what programs of jobs tell of their steps"),
    "job-checkpoints": _("Copies complete checkpoints of jobs to their buckets"),
    "job-outputs": _("Copies what jobs left to where it is to go"),
    "job-hints": _("Tells owners of workspaces that would run as well as jobs"),
    "load-retries": _("Tries failed loads again"),
    "load-schedules": _("Starts loads that are due"),
    "mail": _("Sends mail"),
    "model-files": _("Looks at the files of registered models"),
    "notebook-activity": _("Asks notebooks whether they are used"),
    "notebook-tokens": _("Takes back notebooks' tokens"),
    "orphans": _("Removes work that nobody knows any more"),
    "routes": _("Keeps the addresses of workspaces in the proxy"),
    "perftests": _("Reads what performance tests have measured"),
    "people-at-provider": _("Asks the identity provider about people"),
    "sweep": _("Finds what is due"),
    "usage-ledger": _("Writes down where GPU time went"),
    "watch": _("Watches %(of)s"),
    "work-limits": _("Ends work whose time is over, and that of people who left or were disabled"),
    "webhooks": _("Delivers webhooks"),
    "worker": _("A worker"),
    "workspace-idle": _("Looks for idle work, tells its owners, and parks what stays idle"),
    "workspace-usage": _("Measures what work and GPUs do"),
}

VIA: dict[str, Promise | str] = {"page": _("page"), "api": "API", "engine": "Berth"}

# What drivers say of a cluster that is not well: they write it down once, for every reader.
ANSWERS: tuple[tuple[re.Pattern[str], Promise], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (
            r"^The cluster does not answer \((?P<why>.+)\)\.$",
            _("The cluster does not answer (%(why)s)."),
        ),
        (
            r"^The cluster does not accept Berth's credential; an operator can replace it\.$",
            _("The cluster does not accept Berth's credential; an operator can replace it."),
        ),
        (
            r"^The cluster answers with an error \((?P<status>\d+)\): (?P<why>.*)$",
            _("The cluster answers with an error (%(status)s): %(why)s"),
        ),
        (
            r"^The portal's own token for the cluster cannot be read\.$",
            _("The portal's own token for the cluster cannot be read."),
        ),
        (
            r"^the workload supervisor does not answer \((?P<why>.+)\)$",
            _("The supervisor of this machine's work does not answer (%(why)s)."),
        ),
        (
            r"^the workload supervisor went away$",
            _("The supervisor of this machine's work went away."),
        ),
        (
            r"^The fake machine does not answer\.$",
            _("The machine of the demonstration does not answer."),
        ),
    )
)


def driver_words(name: str) -> str:
    return str(DRIVERS.get(name, name))


def duty_words(name: str) -> str:
    """Return what a lease is for: ``duty:mail``, ``watch:east``, ``worker:<number>``."""
    family, _colon, of = name.removeprefix("duty:").partition(":")
    words = DUTIES.get(family)
    return name if words is None else str(words) % {"of": of}


def via_words(via: str) -> str:
    if via.startswith("token:"):
        return str(_("API token")) + f" {via.removeprefix('token:')}"
    return str(VIA.get(via, via))


def answer_words(message: str) -> str:
    """Return what a driver said, in the reader's language where it is one of its sentences."""
    for pattern, text in ANSWERS:
        if found := pattern.match(message):
            return str(text) % found.groupdict() if found.groupdict() else str(text)
    return message
