"""The API of jobs, mounted below /api/v1/: that of any kind, with replicas and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.response import Response

from jobs import checkpoints, origin, smoke
from jobs.choices import State
from jobs.fetching import problem_of
from jobs.goodput import WorkGoodput
from jobs.kind import JOB
from jobs.packages import package_keep
from jobs.runs_api import (
    WorkArtifactFiles,
    WorkArtifacts,
    WorkArtifactsCopied,
    WorkRunAgain,
    WorkRuns,
    WorkRunsDiff,
    WorkRunsOfAll,
    WorkTensorBoard,
)
from jobs.states import STATES
from projects.access import Permission
from projects.api.base import ProjectAPIView
from runtime.protocol import Seen
from work.api.kinds import Api
from work.api.views import urls_for

if TYPE_CHECKING:
    from rest_framework.request import Request

    from jobs.models import Job
    from work.api.kinds import Reader


class ReplicaOut(serializers.Serializer[Any]):
    index = serializers.IntegerField()
    role = serializers.CharField()
    state = serializers.ChoiceField([seen.value for seen in Seen])
    exit_code = serializers.IntegerField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    node = serializers.CharField(allow_blank=True)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    restarts = serializers.IntegerField(help_text="how often it began anew in this launch")


def _ended(row: Job) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("exit_code", "failed_replica", "finished_at")}


class SmokeOut(serializers.Serializer[Any]):
    """The smoke run of the latest launch: a job of its own that no list shows."""

    id = serializers.CharField()
    state = serializers.ChoiceField(State.choices)


class CheckpointOut(serializers.Serializer[Any]):
    name = serializers.CharField(allow_null=True, help_text="null for others than its owner")
    bytes = serializers.IntegerField()


class CheckpointCopiesOut(serializers.Serializer[Any]):
    """The copies of its checkpoints at a store."""

    url = serializers.CharField()
    kept = CheckpointOut(many=True, help_text="complete ones, the newest first")
    copied_at = serializers.DateTimeField(allow_null=True)
    message = serializers.CharField(
        allow_blank=True,
        allow_null=True,
        help_text="why they are not copied, or back; null for others than its owner",
    )
    restored = serializers.CharField(
        allow_blank=True,
        allow_null=True,
        help_text="the one that came back last; null for others than its owner",
    )


def _failure(row: Job, reader: Reader) -> dict[str, Any]:
    if not reader.owns:
        return {"failure": None}
    told = (problem_of(row) or row.failure, origin.lacking(row))
    return {"failure": "\n".join(filter(None, told))}


def _in_detail(row: Job, reader: Reader) -> dict[str, Any]:
    return {
        **_replicas(row),
        "smoke": _smoke(row),
        "checkpoint_copies": checkpoints.told_of(row, private=reader.owns),
    }


def _smoke(row: Job) -> dict[str, Any] | None:
    one = smoke.latest(row) if row.smoke else None
    return {"id": one.short_id, "state": STATES.of(one)} if one else None


def _replicas(row: Job) -> dict[str, Any]:
    """Return each replica of the latest launch, as it was last seen."""
    found = row.replica_rows.filter(launch=row.launch).order_by("index")
    names = ("index", "role", "exit_code", "reason", "node", "started_at", "ended_at", "restarts")
    return {"replicas": [{**{n: getattr(x, n) for n in names}, "state": x.seen} for x in found]}


API = Api(
    kind=JOB,
    stop="cancel",
    states=STATES,
    own=_ended,
    own_shape={
        "exit_code": serializers.IntegerField(
            allow_null=True, help_text="as a shell gives it: ended by signal 9 is 137"
        ),
        "failed_replica": serializers.IntegerField(
            allow_null=True, help_text="the first that ended badly"
        ),
        "finished_at": serializers.DateTimeField(allow_null=True),
    },
    status_own=_failure,
    status_shape={
        "failure": serializers.CharField(
            allow_null=True,
            help_text="why its code did not come, or what its program said; its owner's alone",
        )
    },
    detail=_in_detail,
    detail_shape={
        "replicas": ReplicaOut(many=True, allow_null=True, help_text="null in lists"),
        "smoke": SmokeOut(allow_null=True, help_text="null in lists"),
        "checkpoint_copies": CheckpointCopiesOut(allow_null=True, help_text="null in lists"),
    },
)


class PackageOut(serializers.Serializer[Any]):
    sha256 = serializers.CharField(help_text="a job names it as package:…")
    size = serializers.IntegerField(help_text="bytes as it was sent")
    files = serializers.IntegerField()
    unpacked = serializers.IntegerField(help_text="bytes of all files")
    sent_at = serializers.DateTimeField()


class Packages(ProjectAPIView):
    """Keep a folder that was packed as tar.gz, for jobs to be run with."""

    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}
    serializer_class = PackageOut

    @extend_schema(
        operation_id="packages_send",
        request={"application/gzip": OpenApiTypes.BINARY},
        responses={201: PackageOut},
    )
    def post(self, request: Request, project: str) -> Response:  # noqa: ARG002
        stream: Any = request._request  # noqa: SLF001 - read as it comes, whatever type it says
        kept = package_keep(principal=self.principal, project=self.project, stream=stream)
        return Response(PackageOut(kept).data, status=status.HTTP_201_CREATED)


urlpatterns = [
    *urls_for(
        API,
        own={
            "goodput": WorkGoodput,
            "runs": WorkRuns,
            "tensorboard": WorkTensorBoard,
            "runs/diff": WorkRunsDiff,
            "runs/<int:run>/again": WorkRunAgain,
            "runs/<int:run>/artifacts": WorkArtifacts,
            "runs/<int:run>/artifacts/files": WorkArtifactFiles,
            "runs/<int:run>/artifacts/copy": WorkArtifactsCopied,
        },
        of_all={"runs": WorkRunsOfAll},
    ),
    path("projects/<slug:project>/packages", Packages.as_view(), name="api-packages"),
]
