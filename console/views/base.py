"""What the console's pages share: who may enter, and the shape of every list."""

from typing import Any, ClassVar

import django_tables2 as tables
from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django_tables2 import RequestConfig

from accounts.models import User
from accounts.selectors import user_get
from projects.ui.base import PlatformView

ROWS = 50


class ConsoleView(PlatformView):
    """Auditors read; only operators change."""

    required_platform: ClassVar[Any] = {"GET": "auditor", "POST": "operator"}

    def context(self) -> dict[str, Any]:
        return {**super().context(), "may_change": self.principal.is_operator}


class ListView(ConsoleView):
    """A table with search and filters that live in the URL."""

    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/list.html"
    table_class: ClassVar[type[tables.Table]]
    filter_class: ClassVar[type[forms.Form]]

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Any]:
        raise NotImplementedError

    def get(self, request: HttpRequest) -> HttpResponse:
        form = self.filter_class(request.GET or None)
        chosen = form.cleaned_data if form.is_valid() else {}
        table = self.table_class(self.rows(chosen), view=self)
        RequestConfig(request, paginate={"per_page": ROWS, "silent": True}).configure(table)
        return self.render({"table": table, "form": form, **self.extra()})

    def extra(self) -> dict[str, Any]:
        return {}


class Table(tables.Table):
    """Knows its view, so that a cell can ask what may be done."""

    def __init__(self, *args: Any, view: ConsoleView, **kwargs: Any) -> None:
        self.view = view
        super().__init__(*args, **kwargs)


class FilterForm(forms.Form):
    """Every filter is optional; an unknown value filters nothing."""

    use_required_attribute = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("auto_id", "filter_%s")
        super().__init__(*args, **kwargs)


def user_from(uid: Any) -> User:
    return user_get(uid)


__all__ = ["ROWS", "ConsoleView", "FilterForm", "ListView", "Table", "user_from"]
