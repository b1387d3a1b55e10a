"""What happened: append-only rows, written in the transaction of the act itself."""

from django.db import models

from common.ids import new_uid


class Event(models.Model):
    """One act in the past tense. Never updated, never deleted (database rights, triggers).

    Targets are ids and words, not foreign keys: history outlives what it tells of.
    The audit log is these rows; a leased sealer chains their hashes (``Seal``).
    """

    id = models.BigAutoField(primary_key=True)
    uid = models.UUIDField(default=new_uid, editable=False)
    at = models.DateTimeField(db_index=True)
    actor_uid = models.UUIDField(null=True)  # None: Berth itself
    actor_name = models.CharField(max_length=120, blank=True, default="")
    via = models.CharField(max_length=24, blank=True, default="")  # page, api, token:abc, engine
    ip = models.CharField(max_length=64, blank=True, default="")
    request_id = models.CharField(max_length=40, blank=True, default="")
    verb = models.CharField(max_length=64, db_index=True)  # workspace.started, member.added …
    outcome = models.CharField(max_length=12, default="done")  # done, denied, failed
    project_uid = models.UUIDField(null=True)
    target_kind = models.CharField(max_length=32, blank=True, default="")
    target_uid = models.CharField(max_length=64, blank=True, default="")
    target_name = models.CharField(max_length=160, blank=True, default="")
    message = models.CharField(max_length=500, blank=True, default="")
    data = models.JSONField(default=dict, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["target_uid", "id"], name="events_target"),
            models.Index(fields=["project_uid", "id"], name="events_project"),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.target_name}"


class Seal(models.Model):
    """A link of the chain: hash over a batch of events and the previous link.

    The batch is the range of ids without ``gaps`` (numbers that were not there when it was
    sealed: a transaction that was undone, or had not ended) and with ``late`` (numbers out of
    gaps of earlier links that appeared since).
    """

    first_event_id = models.BigIntegerField()
    last_event_id = models.BigIntegerField(unique=True)
    count = models.PositiveIntegerField()
    gaps = models.JSONField(default=list)  # [[first, last], …]
    late = models.JSONField(default=list)  # [id, …]
    previous = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.first_event_id}-{self.last_event_id} {self.digest[:12]}"
