"""What a run of tests does once, or leaves out, because each test would pay for it again."""

from __future__ import annotations

import gc
import os
import re
import ssl
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.management.color import no_style
from django.db import connections
from django.test import TransactionTestCase
from httpx._transports import default as transports

# What Django itself writes after each migration: it follows from the models, and no test changes it.
FIXED = frozenset({"django_content_type", "auth_permission"})
NAMING = ("SSL_CERT_FILE", "SSL_CERT_DIR")
NONE_OF = re.compile(r"not \w+(?: and not \w+)*")  # as the expression of `make check`
WHOLE_FILE = re.compile(r"^pytestmark\b.*(?:\n[ )\]].*)*", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a file unread of which no test would run: each worker imports what it needs, for nothing."""
    expression = config.option.markexpr
    if collection_path.suffix != ".py" or not NONE_OF.fullmatch(expression):
        return None
    left_out = set(expression.removeprefix("not ").split(" and not "))
    return True if marks_of_all(collection_path.read_text()) & left_out else None


def marks_of_all(source: str) -> set[str]:
    """Return the marks that each test of a file has; none where some cases only might have them."""
    found = WHOLE_FILE.search(source)
    if not found or "parametrize" in found[0]:
        return set()
    return set(re.findall(r"\bmark\.(\w+)", found[0]))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage meanwhile: nearly all that collecting makes stays until the end.

    Each worker collects all tests, and up to a sixth of that was looking in vain.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if was_on:
            gc.enable()


def pytest_collection_finish() -> None:
    """Look for garbage less often, and never in what the collected tests hold.

    Thousands of tests, views and templates are looked through each time: with Python's own
    thresholds that was an eighth of all that the tests of whole pages computed.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 20)


def pytest_sessionfinish() -> None:
    """What is left ends with the process: pytest and Python would look through all of it."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def quickly_emptied() -> Iterator[None]:
    """After a test without a transaction around it, leave what Django would make again.

    It empties each table, then writes every model and every permission anew: a quarter of a second
    of a core, after each test with a server or threads of its own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty)
        yield


def empty(case: TransactionTestCase) -> None:
    for name in case._databases_names(include_mirrors=False):
        connection = connections[name]
        there = connection.introspection.django_table_names(only_existing=True, include_views=False)
        filled = [table for table in there if table not in FIXED]
        connection.ops.execute_sql_flush(
            connection.ops.sql_flush(no_style(), filled, allow_cascade=False)
        )


@pytest.fixture(scope="session", autouse=True)
def authorities_read_once() -> Iterator[None]:
    """Each client of httpx reads over a hundred certificates, though it speak plain HTTP only.

    That takes up to a tenth of a second of a core, and those who wait for a server ask by a new
    client each time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transports, "create_ssl_context", trusting)
        yield


def trusting(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    if isinstance(verify, ssl.SSLContext) and cert is None:
        return verify
    if verify is True and cert is None:
        return usual(*(os.environ.get(name, "") if trust_env else "" for name in NAMING))
    return httpx.create_ssl_context(verify=verify, cert=cert, trust_env=trust_env)


@cache
def usual(*named: str) -> ssl.SSLContext:
    """What the environment names, else the public ones."""
    return httpx.create_ssl_context(trust_env=any(named))
