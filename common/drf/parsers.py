"""What reads the bodies of requests to the API."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

DEEPEST = 100


class ShallowJSONParser(JSONParser):
    """JSON of bounded depth: whatever walks through it later recurses."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        try:
            said = super().parse(*args, **kwargs)
        except RecursionError:
            is_deep = True
        else:
            level = [said]
            for _depth in range(DEEPEST):
                level = [inner for one in level for inner in _inside(one)]
            is_deep = bool(level)
        if is_deep:
            message = _("JSON parse error: it is nested in more than %(n)d levels.")
            raise ParseError(message % {"n": DEEPEST})
        return said


def _inside(said: Any) -> list[Any]:
    values = said.values() if isinstance(said, dict) else said if isinstance(said, list) else ()
    return [one for one in values if isinstance(one, dict | list)]
