from typing import Any

import pytest

from accounts.services import denials


@pytest.fixture(autouse=True)
def _nobody_was_refused_yet(monkeypatch: Any) -> None:
    """Earlier tests of this minute must not throttle what is recorded here."""
    monkeypatch.setattr(denials, "_minute", denials._Minute())
