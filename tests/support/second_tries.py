"""A second try begins as the first one did, with what that made and with all of its time.

pytest-rerunfailures sets aside, between two tries, what is to be torn down of a module, a package
and the session, and puts that back when the last try is over: in place of what the second try made
there. That was never torn down: Chromium's event loop stayed open under all tests of its worker that
came later. Fixtures that failed are made again, but those of them that another one asked for by
name failed as before without being tried.
"""

from __future__ import annotations

from typing import Any

import pytest
from pytest_rerunfailures import suspended_finalizers

CLOCK = pytest.StashKey[Any]()


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    item.stash[CLOCK] = settings


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if getattr(item, "execution_count", 1) == 1:
        return
    take_up(item.session)
    forget_failures(item.session)
    restart_clock(item)


def take_up(session: pytest.Session) -> None:
    """What the second try adds is torn down with what the first one made."""
    session._setupstate.stack.update(suspended_finalizers)
    suspended_finalizers.clear()


def forget_failures(session: pytest.Session) -> None:
    for fixtures in session._fixturemanager._arg2fixturedefs.values():
        for fixture in fixtures:
            if fixture.cached_result is not None and fixture.cached_result[2] is not None:
                fixture.cached_result = None
                fixture._finalizers.clear()  # of those who would have needed it


def restart_clock(item: pytest.Item) -> None:
    """It has as long as the first try: by itself it has what that left over, or no end."""
    if CLOCK in item.stash:
        item.ihook.pytest_timeout_cancel_timer(item=item)
        item.ihook.pytest_timeout_set_timer(item=item, settings=item.stash[CLOCK])
