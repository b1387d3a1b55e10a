"""Credentials of every state, for the pictures (tools/screen_data.py)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from common.clock import now
from common.ids import new_uid
from credentials.models import Credential, Sentence
from credentials.sealing import seal

if TYPE_CHECKING:
    from accounts.models import User
    from projects.models import Project

NAMENODE = "https://namenode.example.org:9871"


def make(vision: Project, alice: User) -> dict[str, Credential]:
    named = {"bucket": "open-microscopy"}
    no = Sentence("The key is right, but it may not list “%(bucket)s”.", named)
    yes = Sentence("This user may list “%(path)s”. The namenode believes every name.")
    told = Sentence(yes.text, {"path": "/data"})
    return {
        "s3": _one(
            vision,
            alice,
            "archive-key",
            "s3",
            {"access_key": "AKIAIOSFODNN7EXAMPLE", "region": "eu-central-1", **named},
            target="s3.eu-central-1.amazonaws.com",
            tested_at=now() - timedelta(minutes=7),
            test_ok=False,
            test_said=no.kept(),
            expires_at=now() + timedelta(days=5),
        ),
        "hdfs": _one(
            vision,
            alice,
            "lake",
            "hdfs",
            {"endpoint": NAMENODE, "username": "vision", "folder": "/data"},
            target="namenode.example.org:9871",
            tested_at=now() - timedelta(hours=3),
            test_ok=True,
            test_said=told.kept(),
            last_used_at=now() - timedelta(hours=2),
        ),
    }


def _one(
    project: Project,
    owner: User,
    name: str,
    kind: str,
    public: dict[str, Any],
    **columns: Any,
) -> Credential:
    uid = new_uid()
    sealed, key = seal(uid, {"secret_key": "only-for-pictures"})
    return Credential.objects.create(
        uid=uid,
        project=project,
        owner=owner,
        name=name,
        kind=kind,
        public=public,
        sealed=sealed,
        sealed_with=key,
        **columns,
    )


def pages(vision: Project, made: dict[str, Credential]) -> list[tuple[str, str, str]]:
    shelf = reverse("credentials:list", args=[vision.slug])
    return [
        ("alice", "credentials", shelf),
        *(("alice", f"credential-new-{kind}", f"{shelf}?kind={kind}") for kind in ("s3", "hdfs")),
        *(("alice", f"credential-{name}", row.get_absolute_url()) for name, row in made.items()),
        *(
            (
                "alice",
                f"credential-{next(iter(made))}-{tab}",
                f"{next(iter(made.values())).get_absolute_url()}{tab}",
            )
            for tab in ("events", "settings")
        ),
        ("alice", "credentials-own", reverse("credentials:own")),
    ]
