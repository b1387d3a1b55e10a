"""“Test it”: an honest answer of the registry itself, asked by the gate, never by a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.utils.translation import gettext as _

from common.errors import BerthError, NotFound
from common.oci.problems import ImageProblem, Problem
from common.oci.registry import Login, Registry
from common.outbound import OutboundError, Trouble, policy_from_settings
from common.turns import turn
from credentials.choices import CredentialKind, Use
from credentials.models import Credential
from credentials.sealing import unseal
from credentials.services import credential_note_test, credential_note_use
from projects.access import Permission, require
from runtime import gateway

if TYPE_CHECKING:
    from accounts.principal import Principal

QUESTION = "credential-test"
SECONDS = 6.0


@dataclass(frozen=True)
class Verdict:
    ok: bool
    message: str


def credential_test(*, principal: Principal, credential: Credential) -> Verdict:
    """Ask, and keep what was said; TooManyAtOnce while this person asks a lot already."""
    assert credential.project is not None  # noqa: S101 - personal ones have no door yet
    require(principal, credential.project, Permission.CREDENTIAL_MANAGE)
    with turn(principal.user.pk):
        try:
            said = gateway.ask(QUESTION, {"credential": str(credential.uid)}, timeout_s=SECONDS + 2)
        except BerthError as error:
            return Verdict(ok=False, message=error.message)  # nothing is known: nothing is kept
    verdict = Verdict(ok=bool(said["ok"]), message=str(said["message"])[:300])
    credential_note_test(
        principal=principal,
        credential=credential,
        version=int(said["version"]),
        ok=verdict.ok,
        message=verdict.message,
    )
    return verdict


def answer(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Handle the question where it may be asked: in the gate."""
    row = Credential.objects.filter(
        uid=UUID(str(asked["credential"])), kind=CredentialKind.REGISTRY
    ).first()
    if row is None:
        raise NotFound(_("There is no such credential, or you may not see it."))
    login = Login(row.username, unseal(row.uid, row.sealed)["password"])
    credential_note_use(uids=[row.pk], purpose=Use.TEST)
    verdict = tried(row.target, login)
    return {"ok": verdict.ok, "message": verdict.message, "version": row.version}


def tried(host: str, login: Login) -> Verdict:
    try:
        with Registry(host, policy_from_settings(), login=login, seconds=SECONDS) as registry:
            asked = registry.sign_in()
    except ImageProblem as problem:
        wrong = problem.problem in {Problem.WRONG_LOGIN, Problem.SIGN_IN}
        text = _("The registry does not accept this sign-in.") if wrong else problem.sentence
        return Verdict(ok=False, message=text)
    except OutboundError as error:
        kind = Problem.REFUSED if error.trouble is Trouble.REFUSED else Problem.UNREACHABLE
        return Verdict(ok=False, message=ImageProblem(kind, why=error.message).sentence)
    if not asked:
        text = _("The registry lets everybody in, so the sign-in was not asked for.")
        return Verdict(ok=True, message=text)
    return Verdict(ok=True, message=_("The registry accepts this sign-in."))
