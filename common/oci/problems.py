"""What can be wrong with an image, in words."""

from enum import StrEnum

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


class Problem(StrEnum):
    BAD_REFERENCE = "bad-reference"
    NOT_FOUND = "not-found"
    SIGN_IN = "sign-in"
    WRONG_LOGIN = "wrong-login"
    WRONG_ARCHITECTURE = "wrong-architecture"
    TOO_LARGE = "too-large"
    NOT_AN_IMAGE = "not-an-image"
    OLD_FORMAT = "old-format"
    DAMAGED = "damaged"
    NO_SINGLEUSER = "no-singleuser"
    OLD_SINGLEUSER = "old-singleuser"
    # What is no fault of the image, and may be otherwise in a minute or from a node.
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    NOT_A_REGISTRY = "not-a-registry"
    BUSY = "busy"


# The registry did not say: the image may be there.
UNCERTAIN = frozenset({Problem.REFUSED, Problem.UNREACHABLE, Problem.NOT_A_REGISTRY, Problem.BUSY})

SENTENCES: dict[Problem, Promise] = {
    Problem.BAD_REFERENCE: _("This is not the name of an image, as in ghcr.io/team/image:1.0."),
    Problem.NOT_FOUND: _("The registry has no such image or tag. Check the spelling."),
    Problem.SIGN_IN: _(
        "The registry asks for a sign-in, or has no such image. Store a credential for it in"
        " the project."
    ),
    Problem.WRONG_LOGIN: _(
        "The registry does not accept the project's credential for this image. Rotate the"
        " credential, or ask for the right to pull."
    ),
    Problem.WRONG_ARCHITECTURE: _("The image is for %(has)s; the machines here are %(want)s."),
    Problem.TOO_LARGE: _(
        "The image has %(size)s\N{NO-BREAK SPACE}GiB; at most %(limit)s\N{NO-BREAK SPACE}GiB are"
        " pulled here."
    ),
    Problem.NOT_AN_IMAGE: _("This is something else than a container image."),
    Problem.OLD_FORMAT: _(
        "The image is kept in a format that is no longer pulled. Push it again with a tool of"
        " this decade."
    ),
    Problem.DAMAGED: _("The registry sent something else than it was asked for."),
    Problem.NO_SINGLEUSER: _(
        "The image has no jupyterhub-singleuser, so it can't be a notebook. Install jupyterhub"
        " in it, or start it as a container."
    ),
    Problem.OLD_SINGLEUSER: _(
        "The image has jupyterhub %(has)s; notebooks need 4.0 or newer. Install a newer one, or"
        " start it as a container."
    ),
    Problem.REFUSED: _("Berth does not ask this address: %(why)s"),
    Problem.UNREACHABLE: _("The registry could not be asked: %(why)s"),
    Problem.NOT_A_REGISTRY: _("What answers there is not a registry."),
    Problem.BUSY: _("The registry refuses further questions for a while. Try again later."),
}


class ImageProblem(Exception):  # noqa: N818 - said to a person
    """An image that will not do, or that could not be looked at."""

    def __init__(self, problem: Problem, **facts: object) -> None:
        self.problem = problem
        self.facts = facts
        super().__init__(self.sentence)

    @property
    def sentence(self) -> str:
        text = str(SENTENCES[self.problem])
        return text % self.facts if self.facts else text

    @property
    def uncertain(self) -> bool:
        return self.problem in UNCERTAIN
