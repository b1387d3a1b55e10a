# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Budgets of GPU-hours through the API: operators set them, members read their project's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.urls import path
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from accounts.models import User
from budgets import selectors, services
from budgets.choices import MAX_DAYS, MAX_HOURS, Mode
from budgets.models import Budget
from budgets.selectors import Books
from common.drf.serializers import StrictSerializer, given
from common.errors import wrong
from projects.access import Permission
from projects.api.base import PlatformAPIView, ProjectAPIView
from queues.selectors import rows_named

if TYPE_CHECKING:
    from rest_framework.request import Request


class ForecastOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField(allow_null=True, help_text="null: not at this rate")
    earliest = serializers.DateTimeField(allow_null=True)
    latest = serializers.DateTimeField(allow_null=True)
    days = serializers.IntegerField(help_text="by how many days; 0: nothing was used in them")


class BudgetOut(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="budget.uid")
    name = serializers.CharField(source="budget.__str__")
    project = serializers.CharField(source="budget.project.slug", default=None, allow_null=True)
    user = serializers.CharField(source="budget.user.username", default=None, allow_null=True)
    organisation = serializers.UUIDField(
        source="budget.organisation.uid", default=None, allow_null=True
    )
    hours = serializers.DecimalField(source="budget.hours", max_digits=12, decimal_places=2)
    days = serializers.IntegerField(source="budget.days")
    mode = serializers.ChoiceField(source="budget.mode", choices=Mode.choices)
    stops = serializers.BooleanField(source="budget.stops")
    spent = serializers.DecimalField(max_digits=16, decimal_places=4)
    left = serializers.DecimalField(max_digits=16, decimal_places=4)
    percent = serializers.IntegerField()
    forecast = ForecastOut()
    sentence = serializers.CharField(source="forecast_words")


class BudgetChange(StrictSerializer):
    hours = serializers.DecimalField(
        max_digits=12, decimal_places=2, min_value=0, max_value=MAX_HOURS, required=False
    )
    days = serializers.IntegerField(min_value=1, max_value=MAX_DAYS, required=False)
    mode = serializers.ChoiceField(choices=Mode.choices, required=False)
    stops = serializers.BooleanField(required=False)


class BudgetIn(BudgetChange):
    project = serializers.CharField(required=False, help_text="Its slug.")
    user = serializers.CharField(required=False, help_text="A member of the project.")
    organisation = serializers.UUIDField(required=False)
    hours = serializers.DecimalField(
        max_digits=12, decimal_places=2, min_value=0, max_value=MAX_HOURS
    )
    days = serializers.IntegerField(min_value=1, max_value=MAX_DAYS, default=30)
    mode = serializers.ChoiceField(choices=Mode.choices, default=Mode.SOFT)
    stops = serializers.BooleanField(default=False)


def told(budget: Budget) -> Any:
    return BudgetOut(Books.of([selectors.budget_get(budget.uid)]).meters[0]).data


def whose(said: dict[str, Any]) -> dict[str, Any]:
    """Return the rows that a new budget names; NotFound would tell of what is not there."""
    found: dict[str, Any] = rows_named(said)
    if name := said.pop("user", ""):
        found["user"] = User.objects.filter(username=name).first()
        if found["user"] is None:
            raise wrong("user", _("There is no such person."))
    return found


class BudgetList(PlatformAPIView):
    """Every budget with what is spent of it. POST makes one."""

    required_platform: ClassVar = {"GET": "auditor", "POST": "operator"}
    queryset = Budget.objects.none()
    serializer_class = BudgetOut

    @extend_schema(operation_id="budgets_list", responses=BudgetOut(many=True))
    def get(self, request: Request) -> Response:
        meters = Books.of(self.paginate_queryset(selectors.every()) or []).meters
        return self.get_paginated_response(BudgetOut(meters, many=True).data)

    @extend_schema(operation_id="budgets_make", request=BudgetIn, responses={201: BudgetOut})
    def post(self, request: Request) -> Response:
        said = given(BudgetIn, request)
        made = services.budget_make(principal=self.principal, **whose(said), values=said)
        return Response(told(made), status=201)


class BudgetDetail(PlatformAPIView):
    """One budget."""

    required_platform: ClassVar = {"GET": "auditor", "PATCH": "operator", "DELETE": "operator"}

    @extend_schema(responses=BudgetOut)
    def get(self, request: Request, budget: Any) -> Response:
        return Response(told(selectors.budget_get(budget)))

    @extend_schema(request=BudgetChange, responses=BudgetOut)
    def patch(self, request: Request, budget: Any) -> Response:
        row = selectors.budget_get(budget)
        values = given(BudgetChange, request)
        return Response(
            told(services.budget_change(principal=self.principal, budget=row, values=values))
        )

    @extend_schema(responses={204: None})
    def delete(self, request: Request, budget: Any) -> Response:
        row = selectors.budget_get(budget)
        services.budget_delete(principal=self.principal, budget=row)
        return Response(status=204)


class ProjectBudgets(ProjectAPIView):
    """The budgets that hold for one's work in the project: its own, one's own, those above."""

    pagination_class = None  # short by nature: one answer
    required_permissions: ClassVar = {"GET": Permission.QUOTA_READ}

    @extend_schema(operation_id="project_budgets", responses=BudgetOut(many=True))
    def get(self, request: Request, project: str) -> Response:
        meters = selectors.of_project(self.project, self.principal.user)
        return Response(BudgetOut(meters, many=True).data)


urlpatterns = [
    path("budgets", BudgetList.as_view(), name="api-budgets"),
    path("budgets/<uuid:budget>", BudgetDetail.as_view(), name="api-budget"),
    path("projects/<slug:project>/budgets", ProjectBudgets.as_view(), name="api-project-budgets"),
]
