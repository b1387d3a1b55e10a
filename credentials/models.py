"""What a test says, kept without a language: a message of the catalogue and what fills it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from common.ids import new_uid
from credentials.choices import CredentialKind, UsableBy, Use
from projects.models import Project

FACT_MAX = 255
# Facts that are messages of the catalogue themselves; the others fill their places too.
_MESSAGES = frozenset({"why"})


@dataclass(frozen=True)
class Sentence:
    """``text`` is English, as the catalogue knows it; ``str`` says it in the reader's language."""

    text: str
    facts: Mapping[str, str | int] = field(default_factory=dict)

    def __str__(self) -> str:
        said = gettext(self.text) if self.text else ""
        if not self.facts:
            return said
        told = dict(self.facts)
        plain = {name: value for name, value in told.items() if name not in _MESSAGES}
        for name in _MESSAGES & told.keys():
            reason = gettext(str(told[name])) if told[name] else ""
            told[name] = reason % plain if plain else reason
        return said % told

    def kept(self) -> dict[str, Any]:
        facts = {
            name: value if isinstance(value, int) else str(value)[:FACT_MAX]
            for name, value in self.facts.items()
        }
        return {"text": self.text, "facts": facts}


def sentence_of(kept: Mapping[str, Any]) -> Sentence:
    return Sentence(str(kept.get("text", "")), dict(kept.get("facts") or {}))


class Credential(models.Model):
    """Of a project, or (``project`` None) of one person.

    ``public`` holds what may be shown (user name, region), ``sealed`` the rest. ``target`` is
    what it opens: a registry's host, a store's endpoint. ``version`` grows with each rotation;
    ``sealed_with`` names the key, so that a rotation of keys can go on where it was cut.
    """

    KIND = "credential"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    project = models.ForeignKey(
        Project, null=True, on_delete=models.CASCADE, related_name="credentials"
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="credentials"
    )
    kind = models.CharField(max_length=16, choices=CredentialKind.choices)
    name = models.CharField(_("name"), max_length=63)
    description = models.CharField(max_length=500, blank=True, default="", db_default="")
    target = models.CharField(max_length=255, blank=True, default="")
    usable_by = models.CharField(max_length=16, choices=UsableBy.choices, default=UsableBy.MEMBERS)
    public = models.JSONField(default=dict, blank=True)
    sealed = models.TextField()
    sealed_with = models.CharField(max_length=16, db_index=True)
    version = models.PositiveIntegerField(default=1)
    expires_at = models.DateTimeField(null=True)
    # said of its expiry
    warned = models.CharField(max_length=8, blank=True, default="", db_default="")
    rotated_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    last_used_for = models.CharField(max_length=16, choices=Use.choices, blank=True, default="")
    tested_at = models.DateTimeField(null=True)
    test_ok = models.BooleanField(null=True)  # None: not tested since it was stored
    test_message = models.CharField(max_length=300, blank=True, default="")  # of older tests
    # ``said.Sentence.kept``; a portal before this one makes rows too while it is replaced
    test_said = models.JSONField(
        default=dict, blank=True, db_default=models.Value({}, output_field=models.JSONField())
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="credentials_name_once"),
            models.UniqueConstraint(
                fields=["owner", "name"],
                condition=Q(project__isnull=True),
                name="credentials_own_name_once",
            ),
            # A cluster knows one sign-in per registry and project.
            models.UniqueConstraint(
                fields=["project", "target"],
                condition=Q(kind=CredentialKind.REGISTRY),
                name="credentials_registry_once",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        if self.project is None:
            return reverse("credentials:own-detail", args=[self.uid])
        return reverse("credentials:detail", args=[self.project.slug, self.uid])

    @property
    def username(self) -> str:
        return str(self.public.get("username", ""))

    @property
    def test_sentence(self) -> str:
        """Return what its test said, in the language of who reads it."""
        return str(sentence_of(self.test_said)) if self.test_said else self.test_message

    @property
    def is_personal(self) -> bool:
        return self.project_id is None
