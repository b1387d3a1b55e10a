"""Numbered pages for lists of pages (the API has cursors)."""

from typing import TypeVar

from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest

M = TypeVar("M", bound=Model)
PER_PAGE = 50


def paginate(request: HttpRequest, rows: QuerySet[M], *, per_page: int = PER_PAGE) -> Page[M]:
    """Return the asked page; a number out of range is the nearest one. Two queries."""
    return Paginator(rows, per_page).get_page(request.GET.get("page"))
