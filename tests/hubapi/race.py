"""Eight redemptions of one code at once."""
# ruff: noqa: E402, T201

import json
import os
import threading

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")

import django

django.setup()

from django.db import connections
from django.test import Client as Browser

from accounts.models import User
from hubapi import registry
from hubapi.models import NotebookToken
from projects.models import Project
from tests.hubapi.conftest import Lookup, World, describe, ensure

THREADS = 8


def main() -> dict[str, int]:
    alice = User.objects.create(username="alice", password="!")
    project = Project.objects.create(slug="race", name="Race")
    lookup = Lookup()
    registry.register(lookup)
    info = describe(alice, project)
    lookup.infos[info.uid] = info
    world = World(info, ensure(info, alice, project, 1), alice, project)
    browser = Browser()
    browser.force_login(alice, backend="allauth.account.auth_backends.AuthenticationBackend")
    code = world.code(browser)
    results: list[int] = []  # adding to a Counter is not one step
    barrier = threading.Barrier(THREADS)

    def redeem() -> None:
        barrier.wait()
        try:
            results.append(world.redeem(code).status_code)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=redeem) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = NotebookToken.objects.filter(kind="user")
    told = {"tokens": made.count(), "live": made.filter(revoked_at=None).count()}
    return {"won": results.count(200), "refused": results.count(400), **told}


if __name__ == "__main__":
    print(json.dumps(main()))
