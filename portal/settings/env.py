"""Reading settings: environment first, then ``NAME_FILE``, then the generated secrets file."""

import json
import os
from functools import cache
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parents[2]
VAR = Path(os.environ.get("BERTH_VAR", ROOT / "var"))


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


def text(name: str, default: str = "") -> str:
    """Return BERTH_<name>, from the environment, BERTH_<name>_FILE or var/secrets.json."""
    key = f"BERTH_{name}"
    if key in os.environ:
        return os.environ[key]
    if file := os.environ.get(f"{key}_FILE"):
        try:
            return Path(file).read_text().strip()
        except OSError as error:
            message = f"{key}_FILE names {file}, which can't be read: {error.strerror}."
            raise ImproperlyConfigured(message) from error
    return _generated().get(key, default)


def number(name: str, default: int) -> int:
    raw = text(name)
    if not raw:
        return default
    try:
        return int(raw)
    except ValueError as error:
        message = f"BERTH_{name} must be a whole number, not {raw!r}."
        raise ImproperlyConfigured(message) from error


def flag(name: str, *, default: bool = False) -> bool:
    raw = text(name).strip().lower()
    if not raw:
        return default
    if raw in {"1", "true", "yes", "on"}:
        return True
    if raw in {"0", "false", "no", "off"}:
        return False
    message = f"BERTH_{name} must be yes or no, not {raw!r}."
    raise ImproperlyConfigured(message)


def words(name: str, default: str = "") -> list[str]:
    return [w.strip() for w in text(name, default).split(",") if w.strip()]
