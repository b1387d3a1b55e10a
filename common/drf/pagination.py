"""Cursor pagination: stable under inserts, constant cost at any depth."""

from rest_framework import pagination


class CursorPagination(pagination.CursorPagination):
    """``?cursor=…&page_size=…``; newest first unless the view says otherwise."""

    page_size = 50
    max_page_size = 200
    page_size_query_param = "page_size"
    ordering = "-id"
