"""Every kind of notification: its text, where it goes unless a person chose otherwise.

``%(name)s`` in a text is a parameter of the notification. A kind that upper apps need is
added here: this is a table, and the settings page prints it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

MailUrl = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True)
class Kind:
    """``always``: a matter of security, can't be switched off."""

    name: str
    label: Promise
    text: Promise
    icon: str
    mail: bool = False
    always: bool = False
    is_for_people: bool = True  # False: mail to an address without an account
    is_of_projects: bool = True  # False: a matter of one person only


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "project.invited",
            _("Invitations to projects"),
            _("%(who)s invites you to the project “%(name)s”."),
            "mail",
            mail=True,
            is_for_people=False,
        ),
        Kind(
            "project.added",
            _("You were added to a project or your role changed"),
            _("%(who)s gave you the role “%(role)s” in the project “%(name)s”."),
            "users-plus",
        ),
        Kind(
            "project.removed",
            _("You were removed from a project"),
            _("You are no longer a member of the project “%(name)s”."),
            "users-minus",
        ),
        Kind(
            "job.succeeded",
            _("A job has succeeded"),
            _("“%(name)s” has succeeded."),
            "circle-check",
        ),
        Kind(
            "job.failed",
            _("A job failed"),
            _("“%(name)s” failed: %(reason)s"),
            "alert-triangle",
        ),
        Kind(
            "job.output",
            _("What a job left could not be copied as a whole"),
            _("What run %(run)s of “%(name)s” left is not all where it was to go: %(reason)s"),
            "alert-circle",
        ),
        Kind(
            "endpoint.failed",
            _("An endpoint failed"),
            _("“%(name)s” failed and answers nobody: %(reason)s"),
            "alert-triangle",
        ),
        Kind(
            "endpoint.canary-failed",
            _("The canary of an endpoint failed"),
            _("The canary of “%(name)s” failed; the endpoint answers as before: %(reason)s"),
            "alert-circle",
        ),
        Kind(
            "endpoint.taken-over",
            _("Somebody took over an endpoint of yours"),
            _("%(who)s took over “%(name)s”: it is theirs now. Reason: %(reason)s"),
            "user-check",
            mail=True,
        ),
        Kind(
            "experiment.ended",
            _("A search has ended"),
            _("“%(name)s” has ended: %(reason)s"),
            "adjustments",
        ),
        Kind(
            "job.checkpoints",
            _("Checkpoints of a job can't be copied"),
            _("Checkpoints of “%(name)s” can't be copied; it goes on all the same: %(reason)s"),
            "alert-circle",
        ),
        Kind(
            "load.done",
            _("A load is done"),
            ngettext_lazy(
                "“%(name)s” is done: %(files)d file, %(size)s.",
                "“%(name)s” is done: %(files)d files, %(size)s.",
                "files",
            ),
            "circle-check",
        ),
        Kind(
            "load.partial",
            _("A load could not copy everything"),
            ngettext_lazy(
                "“%(name)s” left out %(failed)d object; files that are there: %(files)d.",
                "“%(name)s” left out %(failed)d objects; files that are there: %(files)d.",
                "failed",
            ),
            "alert-circle",
        ),
        Kind(
            "load.failed",
            _("A load failed"),
            _("“%(name)s” failed: %(reason)s"),
            "alert-triangle",
        ),
        Kind(
            "load.not-started",
            _("A scheduled load did not start"),
            _("“%(name)s” did not start: %(reason)s"),
            "alert-triangle",
        ),
        Kind(
            "workspace.ending",
            _("A workspace will stop soon"),
            ngettext_lazy(
                "“%(name)s” stops in %(minutes)d minute. Extend it if you still need it.",
                "“%(name)s” stops in %(minutes)d minutes. Extend it if you still need it.",
                "minutes",
            ),
            "hourglass",
            mail=True,
        ),
        Kind(
            "workspace.stopped",
            _("A workspace was stopped for you"),
            _("“%(name)s” was stopped: %(reason)s. Its files are kept."),
            "player-stop",
        ),
        Kind(
            "work.stopped",
            _("Your work was stopped for you"),
            _("“%(name)s” was stopped: %(reason)s"),
            "player-stop",
        ),
        Kind(
            "work.parked",
            _("Your work was parked, as its GPUs were idle"),
            _(
                "“%(name)s” was parked: its GPUs are free for others. Files, address, packages and "
                "settings are kept; resume it any time."
            ),
            "parking",
            mail=True,
        ),
        Kind(
            "work.ending",
            _("Your work will stop soon"),
            ngettext_lazy(
                "“%(name)s” stops in %(minutes)d minute. Extend it if you still need it.",
                "“%(name)s” stops in %(minutes)d minutes. Extend it if you still need it.",
                "minutes",
            ),
            "hourglass",
        ),
        Kind(
            "work.idle-park",
            _("Your idle work will be parked"),
            ngettext_lazy(
                "“%(name)s” is idle and will be parked in %(minutes)d minute: its GPUs go back; "
                "files, address, packages and settings stay. Keep it if you still need it.",
                "“%(name)s” is idle and will be parked in %(minutes)d minutes: its GPUs go back; "
                "files, address, packages and settings stay. Keep it if you still need it.",
                "minutes",
            ),
            "hourglass-low",
            mail=True,
        ),
        Kind(
            "work.idle-stop",
            _("Your idle work will be stopped"),
            ngettext_lazy(
                "“%(name)s” is idle and stops in %(minutes)d minute. Keep it if you still need it.",
                "“%(name)s” is idle and stops in %(minutes)d minutes. Keep it if you still need "
                "it.",
                "minutes",
            ),
            "hourglass-low",
            mail=True,
        ),
        Kind(
            "work.idle-tell",
            _("Your work holds GPUs and does not use them"),
            ngettext_lazy(
                "“%(name)s” holds GPUs and did not use them for %(idle)d minute. Stop it if you do "
                "not need them: others wait.",
                "“%(name)s” holds GPUs and did not use them for %(idle)d minutes. Stop it if you "
                "do not need them: others wait.",
                "idle",
            ),
            "hourglass-low",
            mail=True,
        ),
        Kind(
            "work.as-job",
            _("A workspace would run as well as a job"),
            _(
                "The GPUs of “%(name)s” compute in bursts and rest in between. Run as a job, the "
                "same program holds them only while it computes, and starts by itself."
            ),
            "stack-2",
        ),
        Kind(
            "work.message",
            _("Somebody writes about your work"),
            _("%(who)s about “%(name)s”: %(text)s"),
            "message",
            mail=True,
        ),
        Kind(
            "work.reclaimed",
            _("Your work gives back GPUs that it borrowed"),
            _(
                "“%(name)s” gives its GPUs back: they are guaranteed to %(whom)s. It has been told "
                "to end, keeps its place in the queue and goes on by itself when it is its turn."
            ),
            "arrow-back-up",
            mail=True,
        ),
        Kind(
            "budget.nearly",
            _("The GPU-hours of a budget are nearly spent"),
            _("The budget of “%(name)s” is nearly spent: %(spent)s. %(then)s"),
            "hourglass-low",
            mail=True,
        ),
        Kind(
            "budget.spent",
            _("The GPU-hours of a budget are spent"),
            _("The budget of “%(name)s” is spent: %(spent)s. %(then)s"),
            "hourglass-empty",
            mail=True,
        ),
        Kind(
            "usage.week",
            _("Each Monday: how a project of yours used its GPUs"),
            _(
                "“%(name)s” last week: %(hours)s GPU-hours attached, %(utilised)s utilised,"
                " %(idle)s GPU-hours held idle. %(most)s"
            ),
            "chart-histogram",
        ),
        Kind(
            "usage.week-of-all",
            _("Each Monday, for operators: how GPUs were used"),
            _(
                "Last week: %(requested)s of all GPUs requested, %(attached)s attached,"
                " %(utilised)s utilised; %(idle)s GPU-hours held idle. %(most)s"
            ),
            "chart-histogram",
        ),
        Kind(
            "work.deleted",
            _("Somebody deleted your workspace, load or volume"),
            _("%(who)s deleted “%(name)s”. Reason: %(reason)s"),
            "trash",
            mail=True,
        ),
        Kind(
            "work.held",
            _("Somebody held your waiting work back"),
            _("%(who)s holds “%(name)s” back in the queue. Reason: %(reason)s"),
            "player-pause",
        ),
        Kind(
            "load.paused-by",
            _("Somebody paused your load"),
            _("%(who)s paused “%(name)s”. Reason: %(reason)s"),
            "player-pause",
        ),
        Kind(
            "load.cancelled-by",
            _("Somebody ended your load"),
            _("%(who)s ended “%(name)s”. Reason: %(reason)s"),
            "player-stop",
        ),
        Kind(
            "workspace.failed",
            _("A workspace failed"),
            _("“%(name)s” failed: %(reason)s"),
            "alert-triangle",
        ),
        Kind(
            "workspace.shared",
            _("A workspace was shared with you"),
            _("%(who)s shared the workspace “%(name)s” with you."),
            "share",
        ),
        Kind(
            "volume.nearly-full",
            _("A volume is nearly full"),
            _("“%(name)s” is %(percent)s %% full. Delete files or make it larger."),
            "database",
            mail=True,
        ),
        Kind(
            "volume.transfer-asked",
            _("A volume is offered to your project"),
            _("%(who)s offers the volume “%(name)s” of “%(project)s” to “%(to)s”."),
            "arrows-exchange",
            mail=True,
        ),
        Kind(
            "volume.transfer-accepted",
            _("Your offer of a volume was accepted"),
            _("“%(project)s” took over the volume “%(name)s”."),
            "arrows-exchange",
        ),
        Kind(
            "volume.transfer-declined",
            _("Your offer of a volume was declined"),
            _("“%(project)s” declined the volume “%(name)s”."),
            "arrows-exchange",
        ),
        Kind(
            "quota.lowered",
            _("A limit was set or lowered"),
            _("Limits of “%(name)s” are new: %(what)s"),
            "gauge",
            mail=True,
        ),
        Kind(
            "credential.expiring",
            _("A credential will run out"),
            _("The credential “%(name)s” runs out on %(day)s. Replace its secret before."),
            "key",
            mail=True,
        ),
        Kind(
            "credential.expired",
            _("A credential has run out"),
            _("The credential “%(name)s” ran out on %(day)s. What needs it will fail."),
            "key-off",
            mail=True,
        ),
        Kind(
            "webhook.disabled",
            _("A webhook was switched off"),
            _("The webhook “%(name)s” was switched off, as nothing could be delivered: %(reason)s"),
            "webhook-off",
            mail=True,
        ),
        Kind(
            "webhook.test",
            _("A test of a webhook"),
            _("%(who)s tests the webhook “%(name)s”."),
            "webhook",
            is_for_people=False,
        ),
        Kind(
            "account.password-changed",
            _("Your password was changed"),
            _("Your password was changed. If it was not you, tell an operator at once."),
            "lock",
            always=True,  # the mail comes from the sign-in pages themselves
            is_of_projects=False,
        ),
        Kind(
            "account.sign-in-again",
            _("You must sign in again to keep your access"),
            _(
                "The identity provider can't be asked about you any more. Sign in within a day: "
                "until then everything goes on; after that your API tokens and SSH keys are "
                "refused and running work ends."
            ),
            "alert-triangle",
            mail=True,
            always=True,
            is_of_projects=False,
        ),
        Kind(
            "account.refused",
            _("The identity provider refused you"),
            _(
                "The identity provider refused you. Your API tokens and SSH keys are "
                "refused and running work ends; files stay. If that is wrong, sign in again: "
                "your access comes back with it."
            ),
            "ban",
            mail=True,
            always=True,
            is_for_people=False,
        ),
    )
}

# Rows hold the word of the program; projects, which name the roles, lie above this app.
ROLES: dict[str, Promise] = {
    "viewer": _("Viewer"),
    "member": _("Member"),
    "manager": _("Manager"),
    "owner": _("Owner"),
}

_mail_urls: dict[str, MailUrl] = {}


def register_mail_url(kind: str, url: MailUrl) -> None:
    """Give the link of a kind's mail from its parameters at the moment of sending.

    For links that carry a secret, which no row may hold.
    """
    _mail_urls[kind] = url


def mail_url(kind: str, params: Mapping[str, Any], url: str) -> str:
    made = _mail_urls.get(kind)
    return made(params) if made else url


def text_of(kind: str, params: Mapping[str, Any]) -> str:
    """Return the sentence in the active language; never fails on an old row."""
    known = KINDS.get(kind)
    if known is None:
        return kind
    try:
        return str(known.text % {**params, **_role_words(params)})
    except (KeyError, ValueError, TypeError):
        return str(known.label)


def _role_words(params: Mapping[str, Any]) -> dict[str, str]:
    role = str(params.get("role", ""))
    return {"role": str(ROLES.get(role, role))} if role else {}
