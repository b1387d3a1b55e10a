"""Reading settings: environment first, then ``NAME_FILE``, then the generated secrets file.

What is wrong is remembered, not raised: whoever starts Berth is told all of it at once, by
``portal.settings.refusals``. Until then the default stands in.
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from portal.settings.kinds import Wrong
from portal.settings.table import DERIVED, TABLE

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
