"""“Test it”: an honest answer of the other side itself, asked by the gate, never by a page.

Only with the secret that is stored: no library looks for another identity on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.utils import translation
from django.utils.translation import gettext as _

from common.errors import BerthError, NotFound
from common.oci import Login
from common.outbound import OutboundError
from common.streams import turn
from credentials.choices import CredentialKind, Use
from credentials.decrypt import opened_all
from credentials.models import Credential, sentence_of
from credentials.probe import hosts, stores, verdict
from credentials.probe.verdict import SECONDS, Verdict
from credentials.services import credential_note_test, require_manage
from runtime import gateway

if TYPE_CHECKING:
    from accounts.principal import Principal

QUESTION = "credential-test"
_ASKED: Mapping[CredentialKind, Callable[[Mapping[str, Any], Mapping[str, str]], Verdict]] = {
    CredentialKind.GCS: stores.gcs_tried,
    CredentialKind.HDFS: stores.hdfs_tried,
    CredentialKind.MLFLOW: stores.mlflow_tried,
    CredentialKind.GIT: hosts.git_tried,
    CredentialKind.SSH: hosts.ssh_tried,
}


def credential_test(*, principal: Principal, credential: Credential) -> Verdict:
    """Ask, and keep what was said; TooManyAtOnce while this person asks a lot already."""
    require_manage(principal, credential)
    with turn(principal.user.pk):
        try:
            said = gateway.ask(QUESTION, {"credential": str(credential.uid)}, timeout_s=SECONDS + 2)
        except BerthError as error:
            return verdict.unknown(error.message)  # nothing is known: nothing is kept
    found = Verdict(said["ok"], sentence_of(said.get("said") or {"text": said["message"]}))
    credential_note_test(
        principal=principal,
        credential=credential,
        version=int(said["version"]),
        ok=found.ok,
        said=found.said,
    )
    return found


def answer(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Handle the question where it may be asked: in the gate."""
    row = Credential.objects.filter(uid=UUID(str(asked["credential"]))).first()
    if row is None:
        raise NotFound(_("There is no such credential, or you may not see it."))
    ((_row, secret),) = opened_all([row], Use.TEST)
    with translation.override("en"):  # it is said in the language of each who reads it
        try:
            found = tried(row.kind, row.public, secret)
        except OutboundError as error:
            found = verdict.unanswered(error)
    # ``message`` is for a portal that is older than this gate
    told = {"said": found.said.kept(), "message": found.message}
    return {"ok": found.ok, **told, "version": row.version}


def tried(kind: str, public: Mapping[str, Any], secret: Mapping[str, str]) -> Verdict:
    """Ask what this kind opens; OutboundError where nobody answered."""
    if kind in {CredentialKind.S3, CredentialKind.S3_COMPATIBLE}:
        return stores.s3_tried(kind, public, secret)
    if kind in _ASKED:
        return _ASKED[CredentialKind(kind)](public, secret)
    if kind == CredentialKind.REGISTRY:
        login = Login(str(public["username"]), secret["password"])
        return hosts.registry_tried(str(public["host"]), login)
    return verdict.unknown(_("Berth does not know what this opens, so nobody can be asked."))


__all__ = ["QUESTION", "Verdict", "answer", "credential_test"]
