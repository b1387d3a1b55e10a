"""An open file browser: one small server next to one volume, for one person."""

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Q

from common.ids import new_short_id
from projects.models import Project
from runtime.models import Reconcilable
from runtime.protocol import Desired, Phase
from runtime.spec import Resources
from volumes.models import Volume

if TYPE_CHECKING:
    from accounts.models import User


class FileSession(Reconcilable):
    """It is wanted or it goes; nothing of it is kept, the files are the volume's.

    The person is not called ``owner`` in the table: what is looked at in a page is no work that
    is counted as usage.
    """

    KIND = "files"

    short_id = models.CharField(max_length=16, unique=True, default=new_short_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="file_sessions")
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="file_sessions"
    )
    volume = models.ForeignKey(Volume, on_delete=models.PROTECT, related_name="file_sessions")
    read_only = models.BooleanField()
    token_digest = models.CharField(max_length=64)  # what the gate says to it is derived
    address = models.CharField(max_length=255, blank=True, default="")  # host:port while it runs
    last_used_at = models.DateTimeField()

    class Meta(Reconcilable.Meta):
        abstract = False
        constraints = [
            *Reconcilable.Meta.constraints,
            models.UniqueConstraint(
                fields=["volume", "person", "project"],
                condition=Q(deleted_at__isnull=True) & ~Q(desired=Desired.ABSENT),
                name="files_one_session",
            ),
        ]
        indexes = [
            *Reconcilable.Meta.indexes,
            models.Index(
                fields=["last_used_at"],
                condition=Q(deleted_at__isnull=True, desired=Desired.RUNNING),
                name="files_idle",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.volume} / {self.person}"

    # What the engine asks of every workload. It takes no place in a line: a page that shows
    # files must open on a full machine too.
    launch = 1
    resources = Resources(cpu_milli=0, memory_mib=0)

    @property
    def owner(self) -> "User":
        return self.person

    @property
    def has_failed(self) -> bool:
        """Whether it ended by itself: another one has to be opened."""
        return self.phase in {Phase.FAILED, Phase.STOPPED}

    @property
    def is_open(self) -> bool:
        wanted = self.desired == Desired.RUNNING and self.deleted_at is None
        return wanted and self.phase == Phase.RUNNING and bool(self.address)
