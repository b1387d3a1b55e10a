"""Writing projects (completed below)."""

from django.utils.translation import gettext as _

from common.errors import Conflict
from projects.models import Project
from runtime.protocol import Desired


def require_active(project: Project) -> None:
    """Raise Conflict when nothing new may start in ``project``."""
    if project.desired == Desired.ABSENT or project.deleted_at is not None:
        raise Conflict(_("The project is being deleted; nothing new starts there."))
    if project.archived_at is not None:
        raise Conflict(_("The project is archived; bring it back before starting anything."))
