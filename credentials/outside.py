"""How stores and hosts of Git are reached for a test: the one way out, by its own rules."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from django.conf import settings

from common.outbound import Policy, policy_from_settings, split_host

PLAIN = 80


def policy_of_stores() -> Policy:
    """Return what the operator allows, with the stores that he lets speak plain http."""
    policy = policy_from_settings()
    named = {split_host(text, default_port=PLAIN) for text in settings.BERTH_INSECURE_STORES}
    google = {
        _named(url) for url in (settings.BERTH_GCS_ENDPOINT, settings.BERTH_GCS_TOKEN_URI) if url
    }
    return replace(policy, hosts=policy.hosts | named | google)


def _named(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return split_host(parts.netloc, default_port=443 if parts.scheme == "https" else PLAIN)
