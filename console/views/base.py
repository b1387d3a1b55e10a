"""What the console's pages share: who may enter, and the shape of every list."""

from typing import Any, ClassVar

import django_tables2 as tables
from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django_tables2 import RequestConfig

from common.errors import BerthError, Invalid
from common.ui.responses import show_error
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


class FormPage(ConsoleView):
    """One form for a new or a known row; what a service refuses stands at its field."""

    template_name = "console/form.html"
    names: ClassVar[dict[str, str]] = {}  # a service's field → the form's

    def row(self) -> Any:
        """Return the row that the address names; None: a new one."""
        return None

    def form(self, row: Any, data: Any = None) -> Any:
        """Return the form of a row, filled with what was sent, if anything was."""
        raise NotImplementedError

    def save(self, row: Any, form: Any) -> str:
        """Keep what is valid, say so, and return the page that follows."""
        raise NotImplementedError

    def page(self, row: Any, form: Any) -> dict[str, Any]:
        """Return what the template shows besides the form."""
        raise NotImplementedError

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        row = self.row()
        return self._shown(row, self.form(row))

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        row = self.row()
        form = self.form(row, request.POST)
        if not form.is_valid():
            return self._shown(row, form, 400)
        try:
            return HttpResponseRedirect(self.save(row, form))
        except BerthError as error:
            show_error(form, error, self.names)
            return self._shown(row, form, error.status)

    def _shown(self, row: Any, form: Any, status: int = 200) -> HttpResponse:
        if not self.principal.is_operator:
            for field in form.fields.values():
                field.disabled = True
        return self.render({"form": form, **self.page(row, form)}, status=status)


class DeletePage(ConsoleView):
    """Behind the typed name."""

    required_platform: ClassVar[Any] = {"POST": "operator"}

    def row(self) -> Any:
        raise NotImplementedError

    def remove(self, row: Any) -> None:
        raise NotImplementedError

    def after(self, row: Any) -> str:
        """Return the page that follows."""
        raise NotImplementedError

    def refusal(self) -> str:
        return _("The typed name is not this one's. Nothing was changed.")

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        row = self.row()
        if request.POST.get("confirm", "").strip() != row.name:
            raise Invalid(self.refusal())
        self.remove(row)
        messages.success(request, _("“%(name)s” is deleted.") % {"name": row.name})
        return HttpResponseRedirect(self.after(row))


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
