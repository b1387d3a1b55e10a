"""What a verb means in words, and an event's details. A verb without words is shown as it is."""

from collections.abc import Callable, Iterable
from typing import Protocol

from django import template
from django.utils.functional import Promise
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

WORDS: dict[str, Promise] = {
    "access.forbidden": _("was refused: no right"),
    "access.not-found": _("was refused: not found, or foreign"),
    "announcement.deleted": _("deleted an announcement"),
    "announcement.saved": _("made an announcement"),
    "credential.created": _("stored the credential"),
    "credential.deleted": _("removed the credential"),
    "credential.edited": _("changed the credential"),
    "credential.rotated": _("replaced the secret of the credential"),
    "credential.tested": _("tested the credential"),
    "cluster.attached": _("attached the cluster"),
    "cluster.changed": _("changed the cluster"),
    "cluster.check-asked": _("asked for a self-check of"),
    "cluster.check-failed": _("found a fault in"),
    "cluster.credential-replaced": _("replaced the credential of"),
    "cluster.detached": _("detached the cluster"),
    "cluster.forgotten": _("forgot the cluster, which did not answer,"),
    "cluster.left-there": _("left what the project has on the cluster"),
    "cluster.namespaces-left": _("left some namespaces on the detached cluster"),
    "cluster.namespaces-removed": _("removed the empty namespaces of the detached cluster"),
    "device.approved": _("let a terminal sign in"),
    "device.denied": _("refused a terminal"),
    "flavor.changed": _("changed the kind of GPU"),
    "flavor.created": _("made the kind of GPU"),
    "flavor.deleted": _("deleted the kind of GPU"),
    "idle-policy.changed": _("changed the idle policy of"),
    "idle-policy.created": _("made an idle policy for"),
    "idle-policy.deleted": _("deleted the idle policy of"),
    "work.idle-extended": _("put off what follows for idle"),
    "work.idle-warned": _("told the owner of idle"),
    "work.messaged": _("wrote to the owner of"),
    "group-role.removed": _("took the role from a group"),
    "group-role.set": _("gave a role to a group"),
    "installation.orphans-released": _("let work that has no row be removed, of the installation"),
    "installation.restored": _("restored from a backup the installation"),
    "invitation.accepted": _("accepted the invitation of"),
    "invitation.created": _("invited"),
    "invitation.revoked": _("withdrew the invitation of"),
    "kubeconfig.created": _("made a kubeconfig"),
    "kubeconfig.revoked": _("revoked the kubeconfig"),
    "experiment.created": _("began the search"),
    "experiment.deleted": _("deleted the search"),
    "experiment.edited": _("changed the search"),
    "experiment.ended": _("saw end the search"),
    "experiment.promoted": _("made a job of the best trial of the search"),
    "experiment.restarted": _("let the search go on"),
    "experiment.stopped": _("stopped the search"),
    "endpoint.asleep": _("let sleep the endpoint"),
    "endpoint.called": _("woke by a request the endpoint"),
    "endpoint.canary-ended": _("took away the canary of the endpoint"),
    "endpoint.canary-made": _("put a canary beside the endpoint"),
    "endpoint.deleted": _("deleted the endpoint"),
    "endpoint.edited": _("changed the endpoint"),
    "endpoint.extended": _("extended the endpoint"),
    "endpoint.key-made": _("made a key for the endpoint"),
    "endpoint.key-revoked": _("revoked a key of the endpoint"),
    "endpoint.launched": _("started the endpoint"),
    "endpoint.parked": _("parked the endpoint"),
    "endpoint.promoted": _("promoted the canary of the endpoint"),
    "endpoint.reclaimed": _("asked GPUs back from the endpoint"),
    "endpoint.rolled-back": _("began to roll back the endpoint"),
    "endpoint.split": _("changed which share the canary gets of the endpoint"),
    "endpoint.started": _("started again the endpoint"),
    "endpoint.stopped": _("stopped the endpoint"),
    "endpoint.taken-over": _("took over the endpoint"),
    "model.created": _("registered the model"),
    "model.batch-begun": _("began a batch prediction of the model"),
    "endpoint.batch-begun": _("began a batch prediction by the endpoint"),
    "model.deleted": _("deleted the model"),
    "model.version-added": _("added a version to the model"),
    "model.version-deleted": _("deleted a version of the model"),
    "model.version-staged": _("changed the stage of a version of the model"),
    "perftest.baseline-chosen": _("chose as baseline the performance test"),
    "perftest.deleted": _("removed the performance test"),
    "perftest.ended": _("saw end the performance test"),
    "perftest.started": _("began the performance test"),
    "job.deleted": _("deleted the job"),
    "job.edited": _("changed the job"),
    "job.extended": _("extended the job"),
    "job.parked": _("parked the job"),
    "job.reclaimed": _("asked GPUs back from the job"),
    "job.launched": _("started the job"),
    "job.started": _("started again the job"),
    "job.stopped": _("cancelled the job"),
    "job.ended-cancelled": _("saw end, cancelled, the job"),
    "job.ended-failed": _("saw fail the job"),
    "job.ended-succeeded": _("saw succeed the job"),
    "kubeconfig.token-issued": _("was given a cluster token"),
    "limit.refused": _("was refused by a limit"),
    "load.cancelled": _("cancelled the load"),
    "load.created": _("made the load"),
    "load.deleted": _("deleted the load"),
    "budget.changed": _("changed the budget of GPU-hours of"),
    "budget.created": _("made a budget of GPU-hours for"),
    "budget.deleted": _("deleted the budget of GPU-hours of"),
    "budget.nearly-spent": _("saw nearly spent the GPU-hours of"),
    "budget.spent": _("saw spent the GPU-hours of"),
    "load.edited": _("changed the load"),
    "load.ended-cancelled": _("saw end, cancelled, the load"),
    "load.ended-done": _("saw done the load"),
    "load.ended-failed": _("saw fail the load"),
    "load.ended-partial": _("saw end with some objects missing the load"),
    "load.ended-paused": _("saw paused the load"),
    "load.ended-stopped": _("saw stopped the load"),
    "load.not-resumed": _("could not go on by itself with the load"),
    "load.not-started": _("could not start by its schedule the load"),
    "load.paused": _("paused the load"),
    "load.reclaimed": _("asked GPUs back from the load"),
    "load.started": _("started the load"),
    "load.stopped": _("stopped the load"),
    "load.uploads-left": _("could not take unfinished uploads back from the store for the load"),
    "member.added": _("added the member"),
    "member.left": _("left"),
    "member.removed": _("removed the member"),
    "member.role-changed": _("changed the role of"),
    "network.changed": _("changed the extra network"),
    "network.created": _("made the extra network"),
    "network.deleted": _("deleted the extra network"),
    "orphan.removed": _("removed its own remains of"),
    "place.opened": _("saw policies of others that open pods in the namespace"),
    "place.repaired": _("put back what was changed by hand in the namespace"),
    "pool.changed": _("changed the pool"),
    "pool.created": _("made the pool"),
    "pool.deleted": _("deleted the pool"),
    "preset.changed": _("changed the preset"),
    "preset.created": _("made the preset"),
    "preset.deleted": _("deleted the preset"),
    "priority.changed": _("changed the class of priority"),
    "priority.created": _("made the class of priority"),
    "priority.deleted": _("deleted the class of priority"),
    "profile.updated": _("changed the own profile"),
    "project.archived": _("archived the project"),
    "project.clusters-changed": _("changed the clusters of the project"),
    "project.created": _("made the project"),
    "project.delete-requested": _("deletes the project"),
    "project.left-behind": _("has yet to remove, from a cluster that does not answer, things of"),
    "project.renamed": _("renamed the project"),
    "project.unarchived": _("brought back the project"),
    "project.updated": _("described the project"),
    "queues.restored": _("put back what was changed by hand of the queues of"),
    "queue.created": _("made the organisation"),
    "queue.deleted": _("deleted the organisation"),
    "queue.tree-changed": _("changed how GPUs are shared by"),
    "quota.changed": _("changed limits of"),
    "session.ended": _("ended a session"),
    "session.others-ended": _("ended all other sessions"),
    "snapshot.created": _("made a snapshot of the volume"),
    "snapshot.deleted": _("deleted a snapshot of the volume"),
    "ssh.denied": _("was refused by SSH"),
    "ssh-key.added": _("added an SSH key"),
    "ssh-key.removed": _("removed an SSH key"),
    "token.created": _("made an API token"),
    "token.denied": _("was refused: token"),
    "token.revoked": _("revoked an API token"),
    "token.write-denied": _("was refused: the token only reads"),
    "user.created": _("made the account"),
    "user.disabled": _("disabled"),
    "user.enabled": _("enabled"),
    "user.password-changed": _("changed the password"),
    "user.password-reset": _("reset the password of"),
    "user.readmitted": _("was let in again by the identity provider"),
    "user.refused": _("kept out, as the identity provider refuses"),
    "user.renamed": _("renamed"),
    "user.role-changed": _("changed the platform role of"),
    "user.sessions-ended": _("ended all sessions of"),
    "user.sign-in-asked": _("asked to sign in again"),
    "user.sign-in-denied": _("was refused to sign in"),
    "user.signed-in": _("signed in"),
    "user.signed-out": _("signed out"),
    "user.signed-up": _("signed up"),
    "volume.brought-back": _("brought back the volume"),
    "volume.changed": _("changed the volume"),
    "volume.created": _("made the volume"),
    "volume.delete-requested": _("deletes the volume"),
    "volume.files-deleted": _("deleted files of the volume"),
    "volume.files-opened": _("opened the files of the volume"),
    "volume.limited": _("limited the volume"),
    "volume.not-resized": _("could not change the size of the volume"),
    "volume.purged": _("removed for good the volume"),
    "volume.resized": _("changed the size of the volume"),
    "volume.restore-asked": _("restored from a snapshot the volume"),
    "volume.transfer-asked": _("offered to another project the volume"),
    "volume.transfer-declined": _("declined the volume"),
    "volume.transfer-withdrawn": _("took back the offer of the volume"),
    "volume.transferred": _("took over the volume"),
    "volume-class.changed": _("changed the class of storage"),
    "volume-class.created": _("made the class of storage"),
    "volume-class.deleted": _("deleted the class of storage"),
    "webhook.changed": _("changed the webhook"),
    "webhook.created": _("made the webhook"),
    "webhook.deleted": _("deleted the webhook"),
    "webhook.disabled": _("switched off, as nothing could be delivered, the webhook"),
    "webhook.secret-replaced": _("replaced the secret of the webhook"),
    "webhook.tested": _("tested the webhook"),
    "workspace.consent-given": _("let a visitor's name be told to"),
    "workspace.deleted": _("deleted the workspace"),
    "workspace.edited": _("edited the workspace"),
    "workspace.exec-opened": _("ran a command in the workspace"),
    "workspace.extended": _("extended the workspace"),
    "workspace.failed": _("saw fail the workspace"),
    "workspace.file-changed": _("changed a file in the workspace"),
    "workspace.file-downloaded": _("downloaded a file of the workspace"),
    "workspace.file-uploaded": _("uploaded a file into the workspace"),
    "workspace.forward-opened": _("opened by SSH a port of the workspace"),
    "workspace.launched": _("started the workspace"),
    "workspace.opened": _("opened the workspace"),
    "workspace.parked": _("parked the workspace"),
    "workspace.reclaimed": _("asked GPUs back from the workspace"),
    "workspace.resumed": _("resumed the workspace"),
    "workspace.shared": _("shared the workspace"),
    "workspace.ssh-opened": _("entered by SSH the workspace"),
    "queue.held": _("held it back in the queue"),
    "queue.let-go": _("let it stand in the queue again"),
    "workspace.stopped": _("stopped the workspace"),
    "workspace.terminal-opened": _("opened a terminal in the workspace"),
    "workspace.unshared": _("stopped sharing the workspace"),
}

OUTCOMES: dict[str, Promise] = {
    "done": _("Done"),
    "denied": _("Denied"),
    "failed": _("Failed"),
}


def words_of(verb: str) -> str:
    return str(WORDS.get(verb, verb))


def outcome_words(outcome: str) -> str:
    return str(OUTCOMES.get(outcome, outcome))


def verbs_said_as(text: str) -> list[str]:
    """Return the verbs whose words, in the reader's language, contain ``text``."""
    wanted = text.casefold()
    return [verb for verb, words in WORDS.items() if wanted in str(words).casefold()]


# What an event says besides its verb, in the words of whoever reads it.
#
# The message was written once, for everybody. Where it names things that have words for people
# (roles, kinds of limits), the app that wrote it says here how they are read.


class Told(Protocol):
    verb: str
    message: str


_readers: dict[str, Callable[[str], str]] = {}


def register_details(verbs: Iterable[str], read: Callable[[str], str]) -> None:
    """``read`` turns the message of these verbs into the reader's words."""
    _readers.update(dict.fromkeys(verbs, read))


def details_of(event: Told) -> str:
    """Return the message as the reader reads it; a sentence of ours in their language."""
    read = _readers.get(event.verb, _t)
    return read(event.message) if event.message else ""


register = template.Library()
register.filter("event_details", details_of)
register.filter("verb_words", words_of)
register.filter("outcome_words", outcome_words)
