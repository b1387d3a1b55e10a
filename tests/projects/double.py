# ruff: noqa: E402, T201 - a program: settings first, then Django
"""Twenty threads send the very same POST with one Idempotency-Key."""

import json
import os
import threading

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")

import django

django.setup()

from collections import Counter
from typing import Any

from django.db import connections
from django.test import Client

from accounts.models import User
from projects.models import IdempotencyKey, Membership, Project

THREADS = 20
BACKEND = "allauth.account.auth_backends.AuthenticationBackend"


def main() -> dict[str, Any]:
    user = User.objects.create(username="alice", password="!")
    results: list[str] = []  # adding to a Counter is not one step
    bodies: set[str] = set()
    clients = [Client() for _ in range(THREADS)]
    for client in clients:
        client.force_login(user, backend=BACKEND)
    barrier = threading.Barrier(THREADS)

    def press(client: Client) -> None:
        barrier.wait()
        try:
            answer = client.post(
                "/api/v1/projects",
                {"name": "Once"},
                content_type="application/json",
                headers={"Idempotency-Key": "double-click"},
            )
            results.append(str(answer.status_code))
            bodies.add(json.dumps(answer.json(), sort_keys=True))
        except Exception as error:  # noqa: BLE001 - counted and shown
            results.append(type(error).__name__)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=press, args=(c,)) for c in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer = {
        "answers": Counter(results),
        "bodies": len(bodies),
        "projects": Project.objects.count(),
        "members": Membership.objects.count(),
        "keys": IdempotencyKey.objects.count(),
    }
    connections.close_all()
    return answer


if __name__ == "__main__":
    print(json.dumps(main()))
