"""Where submitted ``hyperparameters`` go: to whoever runs searches, registered by that app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from django.utils.translation import gettext as _

from common.errors import Conflict

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from accounts.principal import Principal
    from projects.models import Project
    from work.services import Plan


# What a search may ask for, in whichever words.
MAX_TRIALS = 500
MAX_PARALLEL = 32
FAILED_USUAL = 3


class Searches(Protocol):
    """Searches that were submitted in the words of AI Platform Training."""

    def submit(
        self,
        *,
        principal: Principal,
        project: Project,
        said: Mapping[str, Any],
        document: Mapping[str, Any],
        labels: Mapping[str, Any],
    ) -> None:
        """Begin one and keep the file that it came as."""

    def plan(
        self, *, principal: Principal, project: Project, said: Mapping[str, Any]
    ) -> tuple[Plan, str]:
        """Return the plan of its first trial with what all of them take, and why it is refused."""

    def listed(self, who: Principal, project: Project) -> QuerySet[Any]:
        """Return their rows, with ``name`` and ``created_at``."""

    def told(self, who: Principal, row: Any) -> dict[str, Any]:
        """Return one in the shape of AI Platform Training."""

    def cancel(self, *, principal: Principal, row: Any, said: str) -> None:
        """Stop one with its trials."""


_known: list[Searches] = []


def register(searches: Searches) -> None:
    _known[:] = [searches]


def searches() -> Searches:
    if not _known:
        raise Conflict(_("Nothing runs searches here."), code="no-searches")
    return _known[0]
