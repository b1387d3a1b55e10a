from types import SimpleNamespace

from django.db import models

from common.ids import new_uid
from runtime.models import Reconcilable
from runtime.spec import Resources


class Thing(Reconcilable):
    """Stands for a workspace in tests of the engine."""

    KIND = "thing"

    name = models.CharField(max_length=60, default="thing")
    launch = models.PositiveIntegerField(default=1)
    project_uid = models.UUIDField(default=new_uid)
    owner_uid = models.UUIDField(default=new_uid)
    cpu_milli = models.PositiveIntegerField(default=1000)
    memory_mib = models.PositiveIntegerField(default=1024)
    gpus = models.PositiveIntegerField(default=0)
    gpu_flavor = models.CharField(max_length=60, blank=True, default="")
    tokens = models.JSONField(default=list)  # what before_stop revokes

    @property
    def project(self) -> SimpleNamespace:
        return SimpleNamespace(uid=self.project_uid)

    @property
    def resources(self) -> Resources:
        return Resources(self.cpu_milli, self.memory_mib, self.gpus, self.gpu_flavor)

    @property
    def owner(self) -> SimpleNamespace:
        return SimpleNamespace(uid=self.owner_uid)


class Note(models.Model):
    """What a transition listener wrote, in the same transaction as the status."""

    thing = models.ForeignKey(Thing, on_delete=models.CASCADE)
    launch = models.PositiveIntegerField()
    word = models.CharField(max_length=40)
    message = models.TextField(default="")
