"""Whether a container registry takes a sign-in."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _

from common.oci.problems import SENTENCES, ImageProblem, Problem
from common.oci.registry import Login, Registry
from common.outbound import OutboundError, Trouble, policy_from_settings
from credentials.probe import verdict
from credentials.probe.verdict import SECONDS, Verdict
from credentials.said import Sentence


def tried(host: str, login: Login) -> Verdict:
    try:
        with Registry(host, policy_from_settings(), login=login, seconds=SECONDS) as registry:
            asked = registry.sign_in()
    except ImageProblem as problem:
        wrong = problem.problem in {Problem.WRONG_LOGIN, Problem.SIGN_IN}
        text = _("The registry does not accept this sign-in.")
        return verdict.refused(text if wrong else _sentence(problem.problem, problem.facts))
    except OutboundError as error:
        kind = Problem.REFUSED if error.trouble is Trouble.REFUSED else Problem.UNREACHABLE
        return verdict.refused(_sentence(kind, {"why": error.message}))
    if not asked:
        text = _("The registry lets everybody in, so the sign-in was not asked for.")
        return verdict.accepted(text)
    return verdict.accepted(_("The registry accepts this sign-in."))


def _sentence(problem: Problem, facts: Mapping[str, object]) -> Sentence:
    return Sentence(str(SENTENCES[problem]), {name: str(value) for name, value in facts.items()})
