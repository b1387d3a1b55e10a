"""Whether a container registry takes a sign-in."""

from __future__ import annotations

from django.utils.translation import gettext as _

from common.oci.problems import ImageProblem, Problem
from common.oci.registry import Login, Registry
from common.outbound import OutboundError, Trouble, policy_from_settings
from credentials.probe import verdict
from credentials.probe.verdict import SECONDS, Verdict


def tried(host: str, login: Login) -> Verdict:
    try:
        with Registry(host, policy_from_settings(), login=login, seconds=SECONDS) as registry:
            asked = registry.sign_in()
    except ImageProblem as problem:
        wrong = problem.problem in {Problem.WRONG_LOGIN, Problem.SIGN_IN}
        text = _("The registry does not accept this sign-in.") if wrong else problem.sentence
        return verdict.refused(text)
    except OutboundError as error:
        kind = Problem.REFUSED if error.trouble is Trouble.REFUSED else Problem.UNREACHABLE
        return verdict.refused(ImageProblem(kind, why=error.message).sentence)
    if not asked:
        text = _("The registry lets everybody in, so the sign-in was not asked for.")
        return verdict.accepted(text)
    return verdict.accepted(_("The registry accepts this sign-in."))
