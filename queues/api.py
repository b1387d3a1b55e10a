# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The tree of queues through the API, mounted below /api/v1/: operators change it.

Members read what their own project has.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from django.urls import path
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from clusters.selectors import cluster_get
from common.drf.serializers import StrictSerializer, given
from common.errors import Invalid
from projects.access import Permission
from projects.api.base import PlatformAPIView, ProjectAPIView
from queues import selectors, services
from queues.choices import Purpose, Who
from queues.models import MAX_DEVICES
from queues.planning import Change, Plan, plan
from queues.sharing import ROOT, Share
from queues.tree import entries

if TYPE_CHECKING:
    from rest_framework.request import Request

    from queues.tree import Entry, Where

PLAN = OpenApiParameter("plan", bool, description="Change nothing, and answer what would follow.")
CONFIRM = OpenApiParameter("confirm", str, required=True, description="Its name.")

_OR_NONE: Any = {"min_value": 0, "max_value": MAX_DEVICES, "allow_null": True, "default": None}


class ShareFields(StrictSerializer):
    cluster = serializers.CharField(max_length=63)
    kind = serializers.CharField(max_length=63)
    guaranteed = serializers.IntegerField(min_value=0, max_value=MAX_DEVICES, default=0)
    most = serializers.IntegerField(**_OR_NONE)
    lends = serializers.IntegerField(**_OR_NONE)


class PartOut(serializers.Serializer[Any]):
    key = serializers.UUIDField()
    name = serializers.CharField()
    project = serializers.CharField(allow_null=True, help_text="Its slug; null: an organisation.")
    parent = serializers.UUIDField(allow_null=True)  # type: ignore[assignment]
    weight = serializers.DecimalField(max_digits=6, decimal_places=2)
    build_exceeds = serializers.BooleanField()
    longest = serializers.DictField(
        child=serializers.IntegerField(), help_text="Purpose to minutes that its work runs at most."
    )
    each_gpus = serializers.IntegerField(
        allow_null=True, help_text="That one person may hold in the project; null: no limit."
    )
    guarantees = ShareFields(many=True)


class PartIn(StrictSerializer):
    name = serializers.CharField(max_length=63)
    parent = serializers.UUIDField(allow_null=True, default=None)  # type: ignore[assignment]
    weight = serializers.DecimalField(
        max_digits=6, decimal_places=2, min_value=0, default=Decimal(1)
    )


class PartChange(StrictSerializer):
    name = serializers.CharField(max_length=63, required=False)
    parent = serializers.UUIDField(allow_null=True, required=False)  # type: ignore[assignment]
    weight = serializers.DecimalField(max_digits=6, decimal_places=2, min_value=0, required=False)
    build_exceeds = serializers.BooleanField(required=False)
    longest = serializers.DictField(
        child=serializers.IntegerField(min_value=0),
        required=False,
        help_text="Purpose to minutes; 0: no limit. What is not named stays.",
    )
    each_gpus = serializers.IntegerField(
        min_value=0, max_value=MAX_DEVICES, required=False, help_text="0: no limit."
    )
    guarantees = ShareFields(
        many=True,
        required=False,
        help_text="What is named is set; nothing guaranteed, no most and no lends takes it away.",
    )


class UseOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    kind = serializers.CharField(help_text="Empty: of any kind.")
    guaranteed = serializers.IntegerField()
    most = serializers.IntegerField(allow_null=True)
    lends = serializers.IntegerField(allow_null=True)
    held = serializers.IntegerField()
    borrowed = serializers.IntegerField(help_text="Held beyond what is guaranteed.")
    waiting = serializers.IntegerField()


class PartUseOut(UseOut):
    key = serializers.UUIDField()
    name = serializers.CharField()
    lent = serializers.IntegerField(help_text="Guaranteed, not used, and held by others.")


class PromiseOut(serializers.Serializer[Any]):
    kind = serializers.CharField()
    exists = serializers.IntegerField()
    promised = serializers.IntegerField()
    over = serializers.BooleanField(source="is_over")


class ClusterUseOut(serializers.Serializer[Any]):
    promised = PromiseOut(many=True)
    parts = PartUseOut(many=True)


class NamedOut(serializers.Serializer[Any]):
    uid = serializers.UUIDField()
    name = serializers.CharField()
    project = serializers.CharField()
    owner = serializers.CharField()
    gpus = serializers.IntegerField()


class WaitsOut(serializers.Serializer[Any]):
    works = serializers.IntegerField()
    p50 = serializers.FloatField(source="half", allow_null=True, help_text="Seconds.")
    p90 = serializers.FloatField(source="most", allow_null=True, help_text="Seconds.")
    reclaims = serializers.IntegerField()
    never = serializers.IntegerField(help_text="They would still wait.")


class PastOut(serializers.Serializer[Any]):
    key = serializers.UUIDField()
    name = serializers.CharField()
    before = WaitsOut()
    after = WaitsOut()


class EffectOut(serializers.Serializer[Any]):
    cluster = serializers.CharField(source="cluster.key")
    promised = PromiseOut(many=True)
    starts = NamedOut(many=True)
    asked = NamedOut(many=True, help_text="They are told to give back.")
    waits = NamedOut(many=True, help_text="They would start as the tree is, and not any more.")
    past = PastOut(many=True, help_text="The last 30 days again, before and after.")


class AboveOut(serializers.Serializer[Any]):
    project = serializers.CharField()
    user = serializers.CharField()
    gpus = serializers.IntegerField(help_text="They hold or asked for so many.")
    limit = serializers.IntegerField()


class QueuePlanOut(serializers.Serializer[Any]):
    changed = PartOut(many=True)
    effects = EffectOut(many=True)
    above = AboveOut(many=True, help_text="Who has more than each person may from then on.")


class PriorityFields(StrictSerializer):
    name = serializers.SlugField(max_length=40)
    label = serializers.CharField(max_length=80)  # type: ignore[assignment]
    value = serializers.IntegerField(min_value=-1_000_000, max_value=1_000_000)
    who = serializers.ChoiceField(Who.choices, default=Who.EVERYBODY.value)
    purpose = serializers.ChoiceField(Purpose.choices, allow_blank=True, default="")


class PriorityChange(StrictSerializer):
    label = serializers.CharField(max_length=80, required=False)  # type: ignore[assignment]
    value = serializers.IntegerField(min_value=-1_000_000, max_value=1_000_000, required=False)
    who = serializers.ChoiceField(Who.choices, required=False)
    purpose = serializers.ChoiceField(Purpose.choices, allow_blank=True, required=False)


class FixedIn(StrictSerializer):
    project = serializers.UUIDField()
    gpus = serializers.IntegerField(min_value=1, max_value=MAX_DEVICES)


class TwoGroupsIn(StrictSerializer):
    cluster = serializers.CharField(max_length=63)
    kind = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=63, help_text="Of the shared pool.")
    fixed = FixedIn(many=True, allow_empty=True)
    pool = serializers.ListField(child=serializers.UUIDField(), allow_empty=True)


def part_out(entry: Entry) -> dict[str, Any]:
    return {
        "key": entry.key,
        "name": entry.name,
        "project": entry.slug or None,
        "parent": entry.parent or None,
        "weight": Decimal(entry.weight),
        "build_exceeds": entry.build_exceeds,
        "longest": entry.longest,
        "each_gpus": entry.each_gpus,
        "guarantees": [_share(where, share) for where, share in sorted(entry.shares.items())],
    }


def _share(where: Where, share: Share) -> dict[str, Any]:
    numbers = {"guaranteed": share.guaranteed, "most": share.most, "lends": share.lends}
    return {"cluster": where[0], "kind": where[1], **numbers}


def plan_out(made: Plan) -> dict[str, Any]:
    changed = [part_out(made.after[key]) for key in made.changed]
    told = {"changed": changed, "effects": made.effects, "above": made.above}
    return dict(QueuePlanOut(told).data)


def _change(said: dict[str, Any]) -> Change:
    shares: dict[Where, Share] = {}
    for one in said.get("guarantees", ()):
        where = (one["cluster"], one["kind"])
        if where in shares:
            raise Invalid(_("Each kind of GPU on each cluster is named once."))
        shares[where] = Share(one["guaranteed"], one["most"], one["lends"])
    known = {name: value for name, value in said.items() if name not in {"parent", "guarantees"}}
    parent = str(said["parent"] or ROOT) if "parent" in said else None
    return Change(parent=parent, shares=shares, **known)


def _is_plan(request: Request) -> bool:
    return request.query_params.get("plan", "").lower() in {"1", "true", "yes"}


class QueueList(PlatformAPIView):
    """The tree: every organisation and every project. POST makes an organisation."""

    pagination_class = None  # one tree, one answer
    required_platform: ClassVar = {"GET": "auditor", "POST": "operator"}

    @extend_schema(operation_id="queues_list", responses=PartOut(many=True))
    def get(self, request: Request) -> Response:
        shown = [part_out(entry) for entry in entries().values()]
        return Response(PartOut(shown, many=True).data)

    @extend_schema(request=PartIn, responses={201: PartOut})
    def post(self, request: Request) -> Response:
        said = given(PartIn, request)
        made = services.queue_create(
            principal=self.principal,
            name=said["name"],
            parent=str(said["parent"] or ROOT),
            weight=Decimal(said["weight"]),
        )
        return Response(PartOut(part_out(made)).data, status=201)


class QueueDetail(PlatformAPIView):
    """One part of the tree, by its key: a project's uid, or that of an organisation."""

    pagination_class = None
    required_platform: ClassVar = {"GET": "auditor", "PATCH": "operator", "DELETE": "operator"}

    @extend_schema(responses=PartOut)
    def get(self, request: Request, part: Any) -> Response:
        entry, _tree = selectors.entry_get(str(part))
        return Response(PartOut(part_out(entry)).data)

    @extend_schema(request=PartChange, parameters=[PLAN], responses=QueuePlanOut)
    def patch(self, request: Request, part: Any) -> Response:
        entry, _tree = selectors.entry_get(str(part))
        changes = {entry.key: _change(given(PartChange, request))}
        if _is_plan(request):
            return Response(plan_out(plan(changes)))
        return Response(plan_out(services.queues_change(principal=self.principal, changes=changes)))

    @extend_schema(parameters=[CONFIRM], responses={204: None})
    def delete(self, request: Request, part: Any) -> Response:
        entry, _tree = selectors.entry_get(str(part))
        if request.query_params.get("confirm", "") != entry.name:
            raise Invalid(_("The typed name is not the organisation's. Nothing was changed."))
        services.queue_delete(principal=self.principal, key=entry.key)
        return Response(status=204)


class QueueUse(PlatformAPIView):
    """What each part of the tree has, holds, borrows and waits for on one cluster."""

    pagination_class = None
    required_platform: ClassVar = {"GET": "auditor"}

    @extend_schema(responses=ClusterUseOut)
    def get(self, request: Request, cluster: str) -> Response:
        look = selectors.look([cluster_get(cluster)])
        shown = {
            "promised": [column.promise for column in look.columns],
            "parts": [
                {
                    "key": entry.key,
                    "name": entry.name,
                    **_share(column.where, use.share),
                    **_numbers(use),
                    "lent": use.lent,
                }
                for column in look.columns
                for entry, _depth in look.ordered
                for use in [column.uses[entry.key]]
            ],
        }
        return Response(ClusterUseOut(shown).data)


def _numbers(use: selectors.Use) -> dict[str, int]:
    return {"held": use.held, "borrowed": use.borrowed, "waiting": use.waiting}


class TwoGroups(PlatformAPIView):
    """Fixed GPUs for building and a shared pool for training, in one step."""

    pagination_class = None
    required_platform: ClassVar = {"POST": "operator"}

    @extend_schema(
        operation_id="queues_two_groups",
        request=TwoGroupsIn,
        parameters=[PLAN],
        responses=QueuePlanOut,
    )
    def post(self, request: Request) -> Response:
        said = given(TwoGroupsIn, request)
        groups: dict[str, Any] = {
            "where": (said["cluster"], said["kind"]),
            "name": said["name"],
            "fixed": {str(one["project"]): one["gpus"] for one in said["fixed"]},
            "pool": [str(uid) for uid in said["pool"]],
        }
        if _is_plan(request):
            return Response(plan_out(services.two_groups_plan(**groups)))
        return Response(plan_out(services.two_groups_make(principal=self.principal, **groups)))


class PriorityList(PlatformAPIView):
    """The classes of priority, the first to be let in first."""

    pagination_class = None  # short by nature: one answer
    required_platform: ClassVar = {"GET": "user", "POST": "operator"}

    @extend_schema(operation_id="priorities_list", responses=PriorityFields(many=True))
    def get(self, request: Request) -> Response:
        return Response(PriorityFields(selectors.priorities(), many=True).data)

    @extend_schema(request=PriorityFields, responses={201: PriorityFields})
    def post(self, request: Request) -> Response:
        made = services.priority_save(
            principal=self.principal, values=given(PriorityFields, request)
        )
        return Response(PriorityFields(made).data, status=201)


class PriorityDetail(PlatformAPIView):
    """One class of priority, by its name."""

    pagination_class = None
    required_platform: ClassVar = {"PATCH": "operator", "DELETE": "operator"}

    @extend_schema(request=PriorityChange, responses=PriorityFields)
    def patch(self, request: Request, priority: str) -> Response:
        made = services.priority_save(
            principal=self.principal,
            values=given(PriorityChange, request),
            priority=selectors.priority_get(priority),
        )
        return Response(PriorityFields(made).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, priority: str) -> Response:
        row = selectors.priority_get(priority)
        services.priority_delete(principal=self.principal, priority=row)
        return Response(status=204)


class ProjectQueue(ProjectAPIView):
    """What the project has of each kind of GPU: guaranteed, held, borrowed, waited for."""

    pagination_class = None  # short by nature: one answer
    required_permissions: ClassVar = {"GET": Permission.QUOTA_READ}

    @extend_schema(operation_id="project_queue", responses=UseOut(many=True))
    def get(self, request: Request, project: str) -> Response:
        shown = [
            {**_share(one.where, one.use.share), **_numbers(one.use)}
            for one in selectors.of_project(self.project)
        ]
        return Response(UseOut(shown, many=True).data)


urlpatterns = [
    path("queues", QueueList.as_view(), name="api-queues"),
    path("queues/two-groups", TwoGroups.as_view(), name="api-queues-two-groups"),
    path("queues/priorities", PriorityList.as_view(), name="api-priorities"),
    path("queues/priorities/<slug:priority>", PriorityDetail.as_view(), name="api-priority"),
    path("queues/use/<slug:cluster>", QueueUse.as_view(), name="api-queues-use"),
    path("queues/<uuid:part>", QueueDetail.as_view(), name="api-queue"),
    path("projects/<slug:project>/queue", ProjectQueue.as_view(), name="api-project-queue"),
]
