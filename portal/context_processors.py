"""What the page shell needs on every page; constant number of queries."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest


def shell(request: HttpRequest) -> dict[str, Any]:
    return {"berth_version": settings.BERTH_VERSION}
