"""Settings of the listener for workloads."""

from typing import Any

from django.test import Client as Browser


def test_f7_workloads_are_not_redirected_to_https(db: None, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_REDIRECT_EXEMPT = [r"^hub/api(/|$)", r"^hub/424$", r"^(livez|readyz|metrics)$"]
    internal = {"SERVER_PORT": str(settings.BERTH_INTERNAL_PORT)}
    assert Browser().get("/hub/api", **internal).status_code == 200
    assert Browser().get("/hub/api/user", **internal).status_code == 403
    assert Browser().get("/hub/424", **internal).status_code == 424
    assert Browser().get("/hub/home")["Location"].startswith("https://")
