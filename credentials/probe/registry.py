"""Whether a container registry takes a sign-in."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _

from common.oci.problems import SENTENCES, ImageProblem, Problem
from common.oci.registry import Login, Registry
from common.outbound import OutboundError, Trouble, policy_from_settings
from credentials.messages import Sentence
from credentials.probe import verdict
from credentials.probe.verdict import SECONDS, Verdict


def tried(host: str, login: Login) -> Verdict:
    try:
        with Registry(host, policy_from_settings(), login=login, seconds=SECONDS) as registry:
            asked = registry.sign_in()
    except ImageProblem as problem:
        if problem.problem in {Problem.WRONG_LOGIN, Problem.SIGN_IN}:
            return verdict.refused(_("The registry does not accept this sign-in."))
        said = _sentence(problem.problem, problem.facts)
        return verdict.unknown(said) if problem.uncertain else verdict.refused(said)
    except OutboundError as error:
        if error.trouble is Trouble.REFUSED:  # as of every kind: it fails until it is allowed
            return verdict.refused(_sentence(Problem.REFUSED, {"why": error.message}))
        return verdict.unknown(_sentence(Problem.UNREACHABLE, {"why": error.message}))
    if not asked:
        text = _("The registry lets everybody in, so the sign-in was not asked for.")
        return verdict.accepted(text)
    return verdict.accepted(_("The registry accepts this sign-in."))


def _sentence(problem: Problem, facts: Mapping[str, object]) -> Sentence:
    return Sentence(str(SENTENCES[problem]), {name: str(value) for name, value in facts.items()})
