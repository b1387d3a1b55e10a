"""Pages of long lists: numbered for people, cursors for the API."""

from typing import TypeVar

from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from rest_framework import pagination

M = TypeVar("M", bound=Model)
PER_PAGE = 50


def paginate(request: HttpRequest, rows: QuerySet[M], *, per_page: int = PER_PAGE) -> Page[M]:
    """Return the asked page; a number out of range is the nearest one. Two queries."""
    return Paginator(rows, per_page).get_page(request.GET.get("page"))


class CursorPagination(pagination.CursorPagination):
    """``?cursor=…&page_size=…``; newest first unless the view says otherwise."""

    page_size = 50
    max_page_size = 200
    page_size_query_param = "page_size"
    ordering = "-id"
