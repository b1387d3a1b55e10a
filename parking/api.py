# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Idle work through the API: who holds and does not use, policies, putting off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.urls import path
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from common.drf.serializers import CurrencyField, StrictSerializer, given
from common.errors import BerthError, wrong
from parking import dry_run, selectors, services, ui, words
from parking.choices import MAX_EXTENSIONS, MAX_MINUTES, Act, State
from parking.models import IdlePolicy
from parking.patrol import LEAST_HOURS, MOST_HOURS, Filter, Patrol, patrol
from projects.access import Permission
from projects.api.base import PlatformAPIView, ProjectAPIView
from queues.selectors import rows_named
from work.models import Workload

if TYPE_CHECKING:
    from rest_framework.request import Request


class PolicyOut(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="uid")
    scope = serializers.SerializerMethodField()
    project = serializers.CharField(source="project.slug", default=None, allow_null=True)
    organisation = serializers.UUIDField(source="organisation.uid", default=None, allow_null=True)
    kind = serializers.CharField(allow_blank=True, help_text="empty: any that does not end itself")
    state = serializers.ChoiceField(choices=State.choices)
    minutes = serializers.IntegerField()
    grace = serializers.IntegerField(help_text="minutes between the warning and what follows")
    act = serializers.ChoiceField(choices=Act.choices)
    gpu_below = serializers.FloatField(help_text="percent")
    cpu_below = serializers.IntegerField(help_text="thousandths of a CPU")
    memory_below = serializers.IntegerField(allow_null=True, help_text="MiB of the GPUs")
    network_below = serializers.IntegerField(allow_null=True, help_text="KiB a second")
    extension = serializers.IntegerField(help_text="minutes of one extension; 0: none")
    extensions = serializers.IntegerField(help_text="so many need no reason")
    weekdays = serializers.CharField(help_text="digits, 1 is Monday")
    from_hour = serializers.IntegerField()
    until_hour = serializers.IntegerField()
    zone = serializers.CharField()

    def get_scope(self, row: IdlePolicy) -> str:
        return words.scope_words(row)


def _number(low: int, high: int, **said: Any) -> serializers.IntegerField:
    return serializers.IntegerField(min_value=low, max_value=high, required=False, **said)


class PolicyChange(StrictSerializer):
    kind = serializers.CharField(required=False, allow_blank=True, max_length=16)
    state = serializers.ChoiceField(choices=State.choices, required=False)
    minutes = _number(1, MAX_MINUTES)
    grace = _number(1, MAX_MINUTES)
    act = serializers.ChoiceField(choices=Act.choices, required=False)
    gpu_below = serializers.FloatField(min_value=0.1, max_value=100, required=False)
    cpu_below = _number(1, 1_000_000)
    memory_below = _number(1, 1_000_000_000, allow_null=True)
    network_below = _number(1, 1_000_000_000, allow_null=True)
    extension = _number(0, MAX_MINUTES)
    extensions = _number(0, MAX_EXTENSIONS)
    weekdays = serializers.CharField(required=False, max_length=7)
    from_hour = _number(0, 23)
    until_hour = _number(1, 24)
    zone = serializers.CharField(required=False, max_length=64)


class PolicyIn(PolicyChange):
    project = serializers.CharField(required=False, help_text="Its slug.")
    organisation = serializers.UUIDField(required=False)


class PolicyList(PlatformAPIView):
    """Every idle policy. POST makes one; neither project nor organisation: of the platform."""

    required_platform: ClassVar = {"GET": "auditor", "POST": "operator"}
    queryset = IdlePolicy.objects.none()
    serializer_class = PolicyOut

    @extend_schema(operation_id="idle_policies_list", responses=PolicyOut(many=True))
    def get(self, request: Request) -> Response:
        rows = self.paginate_queryset(selectors.policies()) or []
        return self.get_paginated_response(PolicyOut(rows, many=True).data)

    @extend_schema(operation_id="idle_policies_make", request=PolicyIn, responses={201: PolicyOut})
    def post(self, request: Request) -> Response:
        said = given(PolicyIn, request)
        made = services.policy_make(principal=self.principal, **rows_named(said), values=said)
        return Response(PolicyOut(made).data, status=201)


class PolicyDetail(PlatformAPIView):
    """One idle policy."""

    required_platform: ClassVar = {"GET": "auditor", "PATCH": "operator", "DELETE": "operator"}

    @extend_schema(responses=PolicyOut)
    def get(self, request: Request, policy: Any) -> Response:
        return Response(PolicyOut(selectors.policy_get(policy)).data)

    @extend_schema(request=PolicyChange, responses=PolicyOut)
    def patch(self, request: Request, policy: Any) -> Response:
        row = services.policy_change(
            principal=self.principal,
            policy=selectors.policy_get(policy),
            values=given(PolicyChange, request),
        )
        return Response(PolicyOut(row).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, policy: Any) -> Response:
        services.policy_delete(principal=self.principal, policy=selectors.policy_get(policy))
        return Response(status=204)


class LineOut(serializers.Serializer[Any]):
    project = serializers.CharField()
    owner = serializers.CharField()
    gpu_hours = serializers.FloatField()
    times = serializers.IntegerField()


class FoundOut(serializers.Serializer[Any]):
    days = serializers.IntegerField()
    since = serializers.DateTimeField()
    gpu_hours = serializers.FloatField()
    times = serializers.IntegerField()
    held = serializers.FloatField(help_text="GPU-hours of all work that the policy reaches")
    unmeasured = serializers.FloatField(help_text="GPU-hours of which nobody knows the use")
    lines = LineOut(many=True)


class PolicyDryRun(PlatformAPIView):
    """What a policy would have given back in the last days, and from whom."""

    required_platform: ClassVar = {"GET": "auditor"}

    @extend_schema(
        parameters=[OpenApiParameter("days", int, enum=list(dry_run.DAYS))], responses=FoundOut
    )
    def get(self, request: Request, policy: Any) -> Response:
        said = request.query_params.get("days", "7")
        if said not in {str(days) for days in dry_run.DAYS}:
            raise wrong("days", _("2, 7 or 30 days, please."))
        row = selectors.policy_get(policy)
        return Response(FoundOut(dry_run.look_back(row, days=int(said))).data)


class PatrolHolderOut(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="row.uid")
    kind = serializers.CharField(source="row.kind")
    name = serializers.CharField(source="row.name")
    project = serializers.CharField(source="row.project.slug")
    owner = serializers.CharField(source="row.owner.username")
    url = serializers.CharField(help_text="the page of it")
    gpus = serializers.IntegerField()
    flavor = serializers.CharField(allow_blank=True)
    since = serializers.DateTimeField()
    gpu_hours = serializers.FloatField()
    lost = serializers.DecimalField(max_digits=16, decimal_places=2, allow_null=True)
    utilisation = serializers.FloatField(allow_null=True, help_text="percent, now")
    mean = serializers.FloatField(allow_null=True, help_text="percent, since then")
    used_at = serializers.DateTimeField(allow_null=True, help_text="the last sign of life")
    signals = serializers.CharField(allow_blank=True)
    follows = serializers.CharField(allow_blank=True, help_text="what a policy is about to do")


class PatrolOut(serializers.Serializer[Any]):
    gpus = serializers.IntegerField(help_text="held and not used")
    held = serializers.IntegerField()
    unmeasured = serializers.IntegerField(help_text="GPUs of which nobody knows the use")
    gpu_hours = serializers.FloatField()
    lost = serializers.DecimalField(max_digits=16, decimal_places=2, allow_null=True)
    currency = CurrencyField()
    holders = PatrolHolderOut(many=True)


class ActIn(StrictSerializer):
    act = serializers.ChoiceField(choices=["message", "extend", "park"])
    ids = serializers.ListField(child=serializers.UUIDField(), min_length=1, max_length=100)
    said = serializers.CharField(max_length=500, required=False, allow_blank=True, default="")


class ActOut(serializers.Serializer[Any]):
    done = serializers.ListField(child=serializers.UUIDField())
    refused = serializers.DictField(child=serializers.CharField(), help_text="id → why not")


_PARAMETERS = [
    OpenApiParameter("below", float, description="percent of GPU use; 10 by default"),
    OpenApiParameter("hours", float, description="for so many hours; 2 by default"),
    OpenApiParameter("kind", str, description="kind of work"),
    OpenApiParameter("flavor", str, description="kind of GPU"),
    OpenApiParameter("q", str, description="part of a name, a person's or a project's"),
]


def _wanted(request: Request) -> Filter:
    said = request.query_params
    numbers = {"below": (0.1, 100.0), "hours": (LEAST_HOURS, float(MOST_HOURS))}
    found: dict[str, Any] = {k: said[k][:80] for k in ("kind", "flavor", "q") if said.get(k)}
    for name, (low, high) in numbers.items():
        if text := said.get(name):
            try:
                found[name] = float(text)
            except ValueError:
                found[name] = -1.0
            if not low <= found[name] <= high:
                raise wrong(
                    name, _("A number from %(low)g to %(high)g.") % {"low": low, "high": high}
                )
    return Filter(**found)


def _answer(found: Patrol) -> Response:
    return Response(PatrolOut(found).data)


def _do(view: Any, among: Any, request: Request) -> Response:
    """Do it to each; one that can't be is told with the reason, the others are done."""
    said = given(ActIn, request)
    deed = next(one for one in ui.DEEDS if one.name == said["act"])
    rows = {row.uid: row for row in among.filter(uid__in=said["ids"])}
    done: list[UUID] = []
    refused: dict[str, str] = {}
    for uid in said["ids"]:
        row: Workload | None = rows.get(uid)
        if row is None:
            refused[str(uid)] = _("There is no such thing, or you may not see it.")
            continue
        try:
            deed.act(principal=view.principal, row=row, said=said["said"])
            done.append(uid)
        except BerthError as error:
            refused[str(uid)] = str(error.message)
    return Response(ActOut({"done": done, "refused": refused}).data)


class PatrolView(PlatformAPIView):
    """Who holds GPUs and does not use them. POST does something to several of them."""

    pagination_class = None  # one answer
    required_platform: ClassVar = {"GET": "auditor", "POST": "operator"}

    @extend_schema(operation_id="patrol", parameters=_PARAMETERS, responses=PatrolOut)
    def get(self, request: Request) -> Response:
        return _answer(patrol(_wanted(request)))

    @extend_schema(operation_id="patrol_act", request=ActIn, responses=ActOut)
    def post(self, request: Request) -> Response:
        return _do(self, ui.work_rows(), request)


class ProjectPatrolView(ProjectAPIView):
    """The same of a project, for those who manage its work; auditors read it."""

    pagination_class = None  # one answer
    required_permissions: ClassVar = {
        "GET": Permission.PATROL_READ,
        "POST": Permission.WORKSPACE_MANAGE,
    }

    @extend_schema(operation_id="project_patrol", parameters=_PARAMETERS, responses=PatrolOut)
    def get(self, request: Request, project: str) -> Response:
        return _answer(patrol(_wanted(request), self.project, self.can))

    @extend_schema(operation_id="project_patrol_act", request=ActIn, responses=ActOut)
    def post(self, request: Request, project: str) -> Response:
        return _do(self, ui.work_rows().filter(project=self.project), request)


class NoticeOut(serializers.Serializer[Any]):
    since = serializers.DateTimeField(help_text="idle since then")
    act = serializers.ChoiceField(choices=Act.choices)
    at = serializers.DateTimeField(allow_null=True, help_text="when that follows")
    is_told = serializers.BooleanField()
    minutes = serializers.IntegerField(help_text="of one extension; 0: it can't be put off")
    asks_why = serializers.BooleanField(help_text="whether an extension needs a reason")
    sentence = serializers.CharField()


class IdleOut(serializers.Serializer[Any]):
    notice = NoticeOut(allow_null=True, help_text="null: it is not idle, or nothing follows")


class IdleExtendIn(StrictSerializer):
    minutes = _number(1, MAX_MINUTES)
    reason = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")


class IdleView(ProjectAPIView):
    """Whether work is idle, and what follows."""

    pagination_class = None
    required_permissions: ClassVar = {"GET": Permission.PROJECT_READ}

    @extend_schema(operation_id="idle_notice", responses=IdleOut)
    def get(self, request: Request, project: str, workload: UUID) -> Response:
        row = ui.work_of(self, workload)
        return Response(IdleOut({"notice": selectors.notice_of(row)}).data)


class IdleExtendView(ProjectAPIView):
    """Put off what follows for idle work; beyond what its policy lets one, say why."""

    pagination_class = None
    required_permissions: ClassVar = {"POST": Permission.PROJECT_READ}

    @extend_schema(operation_id="idle_extend", request=IdleExtendIn, responses=IdleOut)
    def post(self, request: Request, project: str, workload: UUID) -> Response:
        row = ui.work_of(self, workload)
        services.idle_extend(principal=self.principal, row=row, **given(IdleExtendIn, request))
        return Response(IdleOut({"notice": selectors.notice_of(row)}).data)


_IDLE = "projects/<slug:project>/idle/<uuid:workload>"
urlpatterns = [
    path("patrol", PatrolView.as_view(), name="api-patrol"),
    path("projects/<slug:project>/patrol", ProjectPatrolView.as_view(), name="api-project-patrol"),
    path("idle-policies", PolicyList.as_view(), name="api-idle-policies"),
    path("idle-policies/<uuid:policy>", PolicyDetail.as_view(), name="api-idle-policy"),
    path(
        "idle-policies/<uuid:policy>/dry-run", PolicyDryRun.as_view(), name="api-idle-policy-look"
    ),
    path(_IDLE, IdleView.as_view(), name="api-idle"),
    path(f"{_IDLE}/extend", IdleExtendView.as_view(), name="api-idle-extend"),
]
