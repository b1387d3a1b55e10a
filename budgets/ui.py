# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The operators' pages of budgets: what is spent of each, and when it ends at this rate."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from budgets import selectors, services
from budgets.choices import MAX_DAYS, MAX_HOURS, Mode
from budgets.models import Budget
from budgets.selectors import Books
from common.errors import BerthError, Invalid, wrong
from common.paging import paginate
from common.ui.responses import refuse
from projects.models import Project
from projects.ui.base import PlatformView
from queues.models import Queue


class BudgetForm(forms.Form):
    """A budget; whose it is can be said of a new one only."""

    whose = forms.ChoiceField(label=_("Of"))
    user = forms.CharField(
        label=_("Person"),
        max_length=150,
        required=False,
        help_text=_("The user name of a member of the project; empty: all of them together."),
    )
    hours = forms.DecimalField(
        label=_("GPU-hours"),
        min_value=0,
        max_value=MAX_HOURS,
        max_digits=12,
        decimal_places=2,
        help_text=_("Each kind of GPU counts by its weight, which is on its page."),
    )
    days = forms.IntegerField(
        label=_("In so many days"),
        min_value=1,
        max_value=MAX_DAYS,
        initial=30,
        help_text=_("The window rolls: at each moment the last days count."),
    )
    mode = forms.ChoiceField(label=_("When it is spent"), choices=Mode.choices)
    stops = forms.BooleanField(
        label=_("Stop what runs with GPUs then"),
        required=False,
        help_text=_("Of a hard budget only. Otherwise what runs goes on."),
    )

    def __init__(self, *args: Any, budget: Budget | None = None, **kwargs: Any) -> None:
        if budget is not None:
            names = ("hours", "days", "mode", "stops")
            kwargs["initial"] = {name: getattr(budget, name) for name in names}
            kwargs["initial"]["hours"] = f"{budget.hours.normalize():f}"
        super().__init__(*args, **kwargs)
        if budget is not None:
            del self.fields["whose"], self.fields["user"]
            return
        projects = Project.objects.filter(deleted_at__isnull=True).order_by("name")
        above = Queue.objects.filter(project__isnull=True).order_by("name")
        self.fields["whose"].choices = [  # type: ignore[attr-defined]
            (_t("Projects"), [(f"project:{p.uid}", f"{p.name} ({p.slug})") for p in projects]),
            (_t("Organisations"), [(f"organisation:{q.uid}", q.name) for q in above]),
        ]

    def owner(self) -> dict[str, Any]:
        """Return whose it is, as the service takes it."""
        word, _colon, uid = self.cleaned_data["whose"].partition(":")
        rows: Any = Project if word == "project" else Queue
        found: dict[str, Any] = {word: rows.objects.get(uid=uid)}
        if name := self.cleaned_data["user"].strip():
            found["user"] = User.objects.filter(username=name).first()
            if found["user"] is None:
                raise wrong("user", _t("There is no such person."))
        return found


class BudgetList(PlatformView):
    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "budgets/list.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        page = paginate(request, selectors.every())
        meters = Books.of(page.object_list).meters
        may = self.principal.is_operator
        return self.render({"page": page, "meters": meters, "may_change": may})


class BudgetEdit(PlatformView):
    """One budget, or a new one."""

    required_platform: ClassVar[Any] = {"GET": "auditor", "POST": "operator"}
    template_name = "budgets/edit.html"

    def get(self, request: HttpRequest, budget: Any = None) -> HttpResponse:
        row = selectors.budget_get(budget) if budget else None
        return self._page(row, BudgetForm(budget=row))

    def post(self, request: HttpRequest, budget: Any = None) -> HttpResponse:
        row = selectors.budget_get(budget) if budget else None
        form = BudgetForm(request.POST, budget=row)
        if not form.is_valid():
            return self._page(row, form, 422)
        values = {name: form.cleaned_data[name] for name in ("hours", "days", "mode", "stops")}
        who = self.principal
        try:
            if row is None:
                made = services.budget_make(principal=who, values=values, **form.owner())
            else:
                made = services.budget_change(principal=who, budget=row, values=values)
        except BerthError as error:
            return self._page(row, form, refuse(request, form, error))
        messages.success(request, _t("The budget of “%(name)s” is saved.") % {"name": made})
        return HttpResponseRedirect(reverse("budgets:list"))

    def _page(self, row: Budget | None, form: BudgetForm, status: int = 200) -> HttpResponse:
        meter = Books.of([row]).meters[0] if row else None
        may = self.principal.is_operator
        return self.render(
            {"budget": row, "meter": meter, "form": form, "may_change": may}, status=status
        )


class BudgetDelete(PlatformView):
    """A budget goes behind its typed name."""

    required_platform: ClassVar[Any] = {"POST": "operator"}
    stands_on = BudgetEdit

    def post(self, request: HttpRequest, budget: Any) -> HttpResponse:
        row = selectors.budget_get(budget)
        if request.POST.get("confirm", "").strip() != str(row):
            raise Invalid(_t("The typed name is not the budget's. Nothing was changed."))
        services.budget_delete(principal=self.principal, budget=row)
        messages.success(request, _t("The budget of “%(name)s” is deleted.") % {"name": row})
        return HttpResponseRedirect(reverse("budgets:list"))


app_name = "budgets"
_HERE = "console/budgets"
urlpatterns = [
    path(f"{_HERE}/", BudgetList.as_view(), name="list"),
    path(f"{_HERE}/new", BudgetEdit.as_view(), name="create"),
    path(f"{_HERE}/<uuid:budget>/", BudgetEdit.as_view(), name="edit"),
    path(f"{_HERE}/<uuid:budget>/delete", BudgetDelete.as_view(), name="delete"),
]
