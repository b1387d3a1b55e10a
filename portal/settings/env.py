"""Reading settings: environment first, then ``NAME_FILE``, then the generated secrets file.

What is wrong is remembered, not raised: whoever starts Berth is told all of it at once, by
``portal.settings.env``. Until then the default stands in.
"""

import json
import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from portal.settings.kinds import Wrong
from portal.settings.table import DERIVED, ELSEWHERE, TABLE

ROOT = Path(__file__).resolve().parents[2]
VAR = Path(os.environ.get("BERTH_VAR") or ROOT / "var")
wrong: dict[str, str] = {}  # name of the setting → what is wrong with it


@cache
def _generated() -> dict[str, str]:
    path = VAR / "secrets.json"
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        message = f"{path} can't be read as JSON ({error}). Restore it from a backup."
        raise ImproperlyConfigured(message) from error
    return {str(k): str(v) for k, v in data.items()}


def text(name: str, default: Any = DERIVED) -> str:
    return str(_value(name, str, default))


def number(name: str, default: Any = DERIVED) -> int:
    return int(_value(name, int, default))


def flag(name: str, default: Any = DERIVED) -> bool:
    return bool(_value(name, bool, default))


def words(name: str, default: Any = DERIVED) -> list[str]:
    return list(_value(name, list, default))


def mapping(name: str) -> dict[str, Any]:
    return dict(_value(name, dict, DERIVED))


def _value(name: str, holds: type, default: Any) -> Any:
    """Return what is set, or the default: of the table, where the caller derives none."""
    one = TABLE[name]
    if one.kind.holds is not holds:
        message = f"{one.variable} is no {holds.__name__}."
        raise TypeError(message)
    default = one.default if default is DERIVED else default
    if default is DERIVED:
        message = f"The default of {one.variable} is derived where it is read."
        raise TypeError(message)
    raw = _raw(one.variable)
    if raw is None or (raw.strip() == "" and not one.kind.empty):
        return default
    try:
        return one.kind.read(raw)
    except (ValueError, TypeError) as error:
        said = str(error) if isinstance(error, Wrong) and str(error) else one.kind.said
        shown = "" if one.secret else f", not {raw!r}"
        wrong.setdefault(name, f"{one.variable} must be {said}{shown}.")
        return default


def _raw(variable: str) -> str | None:
    if variable in os.environ:
        return os.environ[variable]
    if file := os.environ.get(f"{variable}_FILE"):
        try:
            return Path(file).read_text().strip()
        except OSError as error:
            name = variable.removeprefix("BERTH_")
            wrong[name] = f"{variable}_FILE names {file}, which can't be read: {error.strerror}."
            return None
        except UnicodeDecodeError:
            name = variable.removeprefix("BERTH_")
            wrong[name] = f"{variable}_FILE names {file}, which is not text."
            return None
    return _generated().get(variable)


# What is wrong with the settings: all of it at once, a sentence each.
#
# A value that is not of its kind was noted when it was read (``env``). Here are names that nobody
# knows, and values that do not go together.


Values = Mapping[str, Any]  # by their names in Django's settings


def refuse(values: Values, also: tuple[str, ...] = ()) -> None:
    """Raise ImproperlyConfigured when anything is wrong: the last line of a settings module."""
    found = [*unknown(os.environ), *wrong.values()]
    for names, sentences in TOGETHER.items():
        if not wrong.keys() & set(names):  # what stands in for a wrong value says nothing
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


def _demo(values: Values) -> list[str]:
    if not values["BERTH_DEMO"] or values["BERTH_SIMULATED_GPUS"]:
        return []
    return ["BERTH_DEMO needs BERTH_SIMULATED_GPUS: made-up work is not to hold real GPUs."]


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
    ("DEMO", "SIMULATED_GPUS"): _demo,
    ("CLUSTER_PUBLIC_KEY", "CLUSTER_PRIVATE_KEY"): _sealing,
}
