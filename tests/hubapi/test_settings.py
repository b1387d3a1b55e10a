"""Settings that would put workspaces and the portal on one host stop the start."""

from typing import Any

import pytest
from django.test import Client as Browser

from hubapi.checks import addresses_are_apart


def test_default_settings_keep_hosts_apart() -> None:
    assert addresses_are_apart() == []


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"BERTH_NOTEBOOK_ROUTING": "hosts"}, "hosts"),
        ({"BERTH_NOTEBOOK_ROUTING": "path", "BERTH_NOTEBOOK_PATH_HOST": "localhost"}, "PATH_HOST"),
        ({"BERTH_NOTEBOOK_DOMAIN": "localhost"}, "NOTEBOOK_DOMAIN"),
        ({"BERTH_NOTEBOOK_DOMAIN": ""}, "NOTEBOOK_DOMAIN"),
        (
            {
                "BERTH_PUBLIC_URL": "https://berth.example.org",
                "BERTH_NOTEBOOK_DOMAIN": "example.org",
            },
            "NOTEBOOK_DOMAIN",
        ),
    ],
)
def test_b2_shared_host_is_an_error_with_a_sentence(
    settings: Any, changes: dict[str, str], word: str
) -> None:
    for name, value in changes.items():
        setattr(settings, name, value)
    [error] = addresses_are_apart()
    assert word in error.msg
    assert error.is_serious()


def test_f7_workloads_are_not_redirected_to_https(db: None, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_REDIRECT_EXEMPT = [r"^hub/api(/|$)", r"^hub/424$", r"^(livez|readyz|metrics)$"]
    internal = {"SERVER_PORT": str(settings.BERTH_INTERNAL_PORT)}
    assert Browser().get("/hub/api", **internal).status_code == 200
    assert Browser().get("/hub/api/user", **internal).status_code == 403
    assert Browser().get("/hub/424", **internal).status_code == 424
    assert Browser().get("/hub/home")["Location"].startswith("https://")
