"""What is wrong with the settings: all of it at once, a sentence each.

A value that is not of its kind was noted when it was read (``env``). Here are names that nobody
knows, and values that do not go together.
"""

import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from portal.settings import env
from portal.settings.table import ELSEWHERE, TABLE

Values = Mapping[str, Any]  # by their names in Django's settings


def refuse(values: Values, also: tuple[str, ...] = ()) -> None:
    """Raise ImproperlyConfigured when anything is wrong: the last line of a settings module."""
    found = [*unknown(os.environ), *env.wrong.values()]
    for names, sentences in TOGETHER.items():
        if not env.wrong.keys() & set(names):  # what stands in for a wrong value says nothing
            found += sentences(values)
    found += also
    if len(found) == 1:
        raise ImproperlyConfigured(found[0])
    if found:
        message = f"{len(found)} settings are wrong:\n  " + "\n  ".join(found)
        raise ImproperlyConfigured(message)


def unknown(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each name that looks like a setting and is none."""
    settings = [one.variable for one in TABLE.values()]
    known = {*settings, *(f"{name}_FILE" for name in settings)}
    known.update(name for names in ELSEWHERE.values() for name in names)
    found = []
    for name in sorted(environ):
        if name.startswith("BERTH_") and name not in known:
            near = get_close_matches(name, settings, n=1)
            hint = f"did you mean {near[0]}?" if near else "docs/settings.md lists them all."
            found.append(f"{name} is no setting; {hint}")
    return found


def _single_sign_on(values: Values) -> list[str]:
    issuer, client = values["BERTH_OIDC_ISSUER"], values["BERTH_OIDC_CLIENT_ID"]
    if bool(issuer) == bool(client):
        return []
    return ["BERTH_OIDC_ISSUER and BERTH_OIDC_CLIENT_ID belong together; only one is set."]


def _tls(values: Values) -> list[str]:
    if bool(values["BERTH_TLS_CERT"]) == bool(values["BERTH_TLS_KEY"]):
        return []
    return ["BERTH_TLS_CERT and BERTH_TLS_KEY belong together; only one is set."]


def _gateway(values: Values) -> list[str]:
    if values["BERTH_ROUTER"] != "gateway":
        return []
    found = []
    if not values["BERTH_GATEWAY"]:
        found.append("BERTH_ROUTER=gateway needs BERTH_GATEWAY: which Gateway carries the routes.")
    if not (values["BERTH_GATEWAY_CLUSTER"] or values["BERTH_IN_CLUSTER"]):
        found.append("BERTH_ROUTER=gateway needs BERTH_GATEWAY_CLUSTER: which cluster has it.")
    if values["BERTH_NOTEBOOK_ROUTING"] != "host":
        found.append("BERTH_ROUTER=gateway needs BERTH_NOTEBOOK_ROUTING=host.")
    return found


def _apart(values: Values) -> list[str]:
    """Cookies ignore ports: pages of workspaces run anybody's scripts, so another host it is."""
    portal = (urlsplit(values["BERTH_PUBLIC_URL"]).hostname or "").lower()
    advice = "; give workspaces a host of their own."
    if values["BERTH_NOTEBOOK_ROUTING"] == "path":
        if portal == values["BERTH_NOTEBOOK_PATH_HOST"].lower():
            return [f"BERTH_NOTEBOOK_PATH_HOST is the portal's own host, {portal}{advice}"]
        return []
    domain = values["BERTH_NOTEBOOK_DOMAIN"].lower().strip(".")
    if portal == domain or portal.endswith(f".{domain}"):
        return [f"The portal's host {portal} lies in BERTH_NOTEBOOK_DOMAIN ({domain}){advice}"]
    return []


def _gate(values: Values) -> list[str]:
    """Cookies ignore ports: who poses as the gate on one of them is not to be sent the portal's."""
    portal, gate = values["BERTH_PUBLIC_URL"], values["BERTH_GATE_PAGES_URL"]
    if portal == gate or urlsplit(portal).hostname != urlsplit(gate).hostname:
        return []
    advice = "give the gate a host of its own, or lead browsers to both by one address."
    return [f"BERTH_GATE_PAGES_URL is another port of the portal's own host; {advice}"]


def _sealing(values: Values) -> list[str]:
    from common.sealing import public_of

    public, privates = values["BERTH_CLUSTER_PUBLIC_KEY"], values["BERTH_CLUSTER_PRIVATE_KEY"]
    if not (public and privates) or public_of(privates[0]) == public:
        return []
    return ["BERTH_CLUSTER_PUBLIC_KEY is not that of the first of BERTH_CLUSTER_PRIVATE_KEY."]


# The settings that a function looks at → the function.
TOGETHER: dict[tuple[str, ...], Callable[[Values], list[str]]] = {
    ("OIDC_ISSUER", "OIDC_CLIENT_ID"): _single_sign_on,
    ("TLS_CERT", "TLS_KEY"): _tls,
    ("ROUTER", "GATEWAY", "GATEWAY_CLUSTER", "IN_CLUSTER", "NOTEBOOK_ROUTING"): _gateway,
    ("PUBLIC_URL", "NOTEBOOK_ROUTING", "NOTEBOOK_PATH_HOST", "NOTEBOOK_DOMAIN"): _apart,
    ("PUBLIC_URL", "GATE_PAGES_URL"): _gate,
    ("CLUSTER_PUBLIC_KEY", "CLUSTER_PRIVATE_KEY"): _sealing,
}
