from __future__ import annotations

from django.db import models

from work.models import Workload


class Tiny(Workload):
    """Work with one field of its own, which goes on until somebody stops it."""

    KIND = "tiny"
    NAMES_PER_OWNER = True

    color = models.CharField(max_length=16, default="red")
    env = models.JSONField(default=dict)

    environment = ""
    image_digest = ""

    def get_absolute_url(self) -> str:
        return f"/projects/{self.project.slug}/tinies/{self.short_id}/"
