"""What the console's pages share: who may enter, and the shape of every list."""

from typing import Any, ClassVar

import django_tables2 as tables
from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django_tables2 import RequestConfig

from common.errors import BerthError, Invalid
from common.ui import components
from common.ui.responses import show_error
from projects.ui.base import PlatformView
from work.fields import Text

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
    heading: ClassVar[Text]
    new: ClassVar[tuple[str, Text] | None] = None  # the page of another one, and what leads there
    empty: ClassVar[tuple[str, Text, Text] | None] = None  # icon, title, text where there is none

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Any]:
        raise NotImplementedError

    def get(self, request: HttpRequest) -> HttpResponse:
        form = self.filter_class(request.GET or None)
        chosen = form.cleaned_data if form.is_valid() else {}
        table = self.table_class(self.rows(chosen), view=self)
        RequestConfig(request, paginate={"per_page": ROWS, "silent": True}).configure(table)
        context: dict[str, Any] = {"table": table, "form": form, "heading": self.heading}
        if self.new:
            context |= {"action_url": reverse(self.new[0]), "action_label": self.new[1]}
        if self.empty:
            names = ("empty_icon", "empty_title", "empty_text")
            context |= dict(zip(names, self.empty, strict=True))
        return self.render({**context, **self.extra()})

    def extra(self) -> dict[str, Any]:
        """Return what the template shows besides."""
        return {}


class FormPage(ConsoleView):
    """One form for a new or a known row; what a service refuses stands at its field."""

    template_name = "console/form.html"
    form_class: ClassVar[type[forms.Form]]
    heading: ClassVar[Text]
    submit: ClassVar[Text] = _lazy("Save")
    note: ClassVar[Text] = ""
    back: ClassVar[tuple[str, Text]]  # the list that it belongs to, and what leads there
    names: ClassVar[dict[str, str]] = {}  # a service's field → the form's

    def row(self) -> Any:
        """Return the row that the address names; None: a new one."""
        return None

    def form(self, row: Any, data: Any = None) -> Any:
        """Return the form of a row, filled with what was sent, if anything was."""
        del row
        return self.form_class(data)

    def save(self, row: Any, form: Any) -> str | HttpResponse:
        """Keep what is valid, say so, and return the page that follows, or its address."""
        raise NotImplementedError

    def page(self, row: Any, form: Any) -> dict[str, Any]:
        """Return what the template shows besides the form."""
        del form
        url, label = self.above(row)
        words = {"heading": self.heading, "submit": self.submit, "note": self.note}
        return {**words, "back_url": url, "back_label": label}

    def above(self, row: Any) -> tuple[str, Text]:
        """Return the address of the page that it belongs to, and what leads there."""
        del row
        url, label = self.back
        return reverse(url), label

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        row = self.row()
        return self._shown(row, self.form(row))

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        row = self.row()
        form = self.form(row, request.POST)
        if not form.is_valid():
            return self._shown(row, form, 400)
        try:
            done = self.save(row, form)
        except BerthError as error:
            show_error(form, error, self.names)
            return self._shown(row, form, error.status)
        return HttpResponseRedirect(done) if isinstance(done, str) else done

    def _shown(self, row: Any, form: Any, status: int = 200) -> HttpResponse:
        if not self.principal.is_operator:
            for field in form.fields.values():
                field.disabled = True
        return self.render({"form": form, **self.page(row, form)}, status=status)


class PartPage(FormPage):
    """A form of a new or a known row, which is deleted from there (``DeletePage``)."""

    template_name = "console/part.html"
    saved: ClassVar[Text] = _lazy("“%(name)s” is saved.")
    delete_route: ClassVar[str]  # the route that does it; its address is named as this page's

    def delete_words(self, row: Any) -> tuple[str, str]:
        """Return what is asked before it goes, and what goes with it."""
        raise NotImplementedError

    def done(self, row: Any) -> str:
        """Say that it is kept, and return the page that follows."""
        messages.success(self.request, self.saved % {"name": row.name})
        return self.above(row)[0]

    def page(self, row: Any, form: Any) -> dict[str, Any]:
        context = {**super().page(row, form), "part": row}
        if row:
            title, text = self.delete_words(row)
            context |= {"heading": row.name, "delete_title": title, "delete_text": text}
            context["delete_url"] = reverse(self.delete_route, kwargs=self.kwargs)
        return context


class DeletePage(ConsoleView):
    """Behind the typed name, from the page of the row."""

    required_platform: ClassVar[Any] = {"POST": "operator"}
    stands_on: ClassVar[type[FormPage]]
    refusal: ClassVar[Text] = _lazy("The typed name is not this one's. Nothing was changed.")

    def remove(self, row: Any) -> None:
        raise NotImplementedError

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:  # noqa: ARG002
        page = self.stands_on(kwargs=self.kwargs)
        row = page.row()
        if request.POST.get("confirm", "").strip() != row.name:
            raise Invalid(str(self.refusal))
        self.remove(row)
        messages.success(request, _("“%(name)s” is deleted.") % {"name": row.name})
        return HttpResponseRedirect(page.above(row)[0])


class Table(tables.Table):
    """Knows its view, so that a cell can ask what may be done."""

    def __init__(self, *args: Any, view: ConsoleView, **kwargs: Any) -> None:
        self.view = view
        super().__init__(*args, **kwargs)


class FilterForm(components.FilterForm):
    """Its fields are not those of a form beside it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("auto_id", "filter_%s")
        super().__init__(*args, **kwargs)
