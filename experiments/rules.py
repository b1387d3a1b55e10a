"""What a search may say of its parameters, and where their values go; pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from common.errors import wrong
from experiments import search
from experiments.choices import Algorithm

MAX_PARAMETERS = 20
MAX_VALUES = 100
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_PLACE = re.compile(r"\$\{trialParameters\.([A-Za-z0-9_-]+)\}")
_NUMBER_PLACE = "${trial.number}"
# As Katib's collector of what is printed reads it: name=value, a number. Nothing in it is tried
# twice: what a program prints must not hold up who reads it.
_NUMBER = r"[+-]?(?:\d{1,40}+(?:\.\d{0,40}+)?+|\.\d{1,40}+)(?:[Ee][+-]?\d{1,4}+)?+"
_BEFORE, _AFTER = r"(?<![\w|-])", r"[ \t]{0,8}+=[ \t]{0,8}+"
_GREATEST = 1e100  # no objective is beyond, and sums of what is would be no numbers


def require_parameters(parameters: Sequence[Mapping[str, Any]], algorithm: str) -> None:
    """Raise Invalid that names the parameter and says what to do."""
    names = [one["name"] for one in parameters]
    if not 1 <= len(names) <= MAX_PARAMETERS:
        raise wrong("parameters", _("Between 1 and %(n)d parameters.") % {"n": MAX_PARAMETERS})
    for one in parameters:
        if not _NAME.fullmatch(one["name"]) or names.count(one["name"]) > 1:
            message = _("%(name)s: a letter, then letters, digits, “_” and “-”; each name once.")
            raise wrong("parameters", message % {"name": one["name"]})
        if why := _why_not(one, algorithm):
            raise wrong("parameters", f"{one['name']}: {why}")
    numbers = [one for one in parameters if one["type"] != "categorical"]
    if algorithm == Algorithm.CMAES and len(numbers) < 2:  # noqa: PLR2004 - it is made of pairs
        raise wrong("parameters", _("CMA-ES needs two parameters at least that are numbers."))


def _why_not(one: Mapping[str, Any], algorithm: str) -> str:  # noqa: PLR0911 - one per fault
    if one["type"] == "categorical":
        values = one.get("values") or []
        good = 1 <= len(values) <= MAX_VALUES and len(set(map(repr, values))) == len(values)
        return "" if good else _("Give it between 1 and %(n)d values.") % {"n": MAX_VALUES}
    low, high, step = one.get("min"), one.get("max"), one.get("step")
    numbers = [number for number in (low, high, step) if number is not None]
    if low is None or high is None or not all(map(math.isfinite, numbers)) or low > high:
        return _("It needs a min and a max, and min is not above max.")
    if one["type"] == "int" and any(number != int(number) for number in numbers):
        return _("Its bounds and its step are whole numbers.")
    if step is not None and (step <= 0 or one.get("log")):
        return _("A step is above 0, and does not go with a logarithmic scale.")
    if one.get("log") and low <= 0:
        return _("A logarithmic scale begins above 0.")
    if algorithm == Algorithm.GRID and step is None and one["type"] == "double":
        return _("To try every combination it needs a step.")
    if algorithm == Algorithm.GRID and search.grid_size([one]) > MAX_VALUES:
        return _("At most %(n)d values for a parameter.") % {"n": MAX_VALUES}
    return ""


def require_used(template: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise Invalid where a parameter goes nowhere, or a place has no parameter."""
    places = set(_places(template))
    if unused := sorted(set(names) - places):
        message = _("Nothing uses %(name)s: write ${trialParameters.%(name)s} where it goes.")
        raise wrong("job", message % {"name": unused[0]})
    if strange := sorted(places - set(names)):
        raise wrong("job", _("There is no parameter %(name)s.") % {"name": strange[0]})


def _places(value: Any) -> list[str]:
    if isinstance(value, str):
        return _PLACE.findall(value)
    if isinstance(value, Mapping):
        return [name for one in value.values() for name in _places(one)]
    return [name for one in value for name in _places(one)] if isinstance(value, list) else []


def filled(value: Any, values: Mapping[str, Any], number: int | str) -> Any:
    """Return a template with the values of a trial, and its number, in their places."""
    if isinstance(value, str):
        parts = value.split(_NUMBER_PLACE)  # first: a value may read like a place
        done = (_PLACE.sub(lambda found: str(values[found[1]]), part) for part in parts)
        return str(number).join(done)
    if isinstance(value, Mapping):
        return {name: filled(one, values, number) for name, one in value.items()}
    return [filled(one, values, number) for one in value] if isinstance(value, list) else value


def numbers_said(text: str, metric: str) -> list[float]:
    """Return every finite number that ``text`` says of a metric, in turn."""
    said = rf"{_BEFORE}{re.escape(metric)}{_AFTER}({_NUMBER})(?![\w.])"
    return [number for number in map(float, re.findall(said, text)) if abs(number) <= _GREATEST]
