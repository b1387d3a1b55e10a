"""A10: known and unknown names take the same time."""

import statistics
import time

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.test import Client

from accounts.models import User

pytestmark = pytest.mark.django_db
PAIRS = 40
ATTEMPTS = 3


class Hasher(PBKDF2PasswordHasher):
    """The product's hasher, quick enough for forty pairs and slow enough to be seen."""

    iterations = 15_000


def test_a10_known_and_unknown_names_take_the_same_time(settings):
    settings.PASSWORD_HASHERS = ["tests.accounts.test_timing.Hasher"]
    settings.ACCOUNT_RATE_LIMITS = False
    known = User(username="somebody", email="somebody@example.org")
    known.set_password("a long enough secret")
    known.save()
    ratio = 0.0
    for _attempt in range(ATTEMPTS):  # a busy machine may spoil one
        there, absent = [], []
        for n in range(PAIRS):
            order = (("somebody", there), (f"nobody{n:02}", absent))
            for name, times in order if n % 2 else reversed(order):
                times.append(_answer_time(name))
        ratio = statistics.median(there) / statistics.median(absent)
        if 0.9 <= ratio <= 1.1:
            return
    pytest.fail(f"known names take {ratio:.2f} times as long as unknown ones")


def _answer_time(name: str) -> float:
    """Return the CPU seconds of one answer: nothing in it waits."""
    client = Client()
    start = time.thread_time()  # what others do on this machine is no part of it
    answer = client.post("/accounts/login/", {"login": name, "password": "wrong password"})
    took = time.thread_time() - start
    assert answer.status_code == 200
    return took
