from typing import Any

import pytest

from accounts.services import sessions


@pytest.fixture(autouse=True)
def _nobody_was_refused_yet(monkeypatch: Any) -> None:
    """Earlier tests of this minute must not throttle what is recorded here."""
    monkeypatch.setattr(sessions, "_minute", sessions._Minute())
