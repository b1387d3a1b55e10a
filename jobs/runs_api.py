"""Runs of a job through the API: all of them, what two differ in, one again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.response import Response

from common.errors import NotFound, Unavailable, wrong
from jobs import output_copies, output_states, runs
from jobs.choices import OutputState
from jobs.models import Run
from jobs.tensorboard import MOST, tensorboard_open
from work import kinds
from work.api.base import ActView, OneView, WorkAPIView
from work.selectors import reads_private, require_owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rest_framework.request import Request

    from work.api.kinds import Api


class PlaceOut(serializers.Serializer[Any]):
    launch = serializers.IntegerField()
    at = serializers.DateTimeField()
    nodes = serializers.ListField(child=serializers.CharField())
    replicas = serializers.IntegerField(
        default=None, allow_null=True, help_text="how many it had then; null: not written down"
    )


class RunOut(serializers.ModelSerializer[Run]):
    """``said``: every field as the run had it; what only the owner may read is null for others."""

    run = serializers.IntegerField(source="launch")
    by = serializers.CharField(source="by.username", default=None, allow_null=True)
    said = serializers.SerializerMethodField()
    variables = serializers.SerializerMethodField(help_text="names; null for others")
    places = PlaceOut(many=True, help_text="each time that it began to run")
    cluster = serializers.CharField(source="cluster_key")
    commit = serializers.SerializerMethodField(help_text="of its code; null for others")
    left_out = serializers.SerializerMethodField(
        help_text="modules and pointers of its repository, by name; null for others"
    )

    class Meta:
        model = Run
        fields: tuple[str, ...] = (
            "run", "by", "asked_at", "said", "variables", "commit", "left_out", "image_digest",
            "cluster", "began_at", "ended_at", "how", "exit_code", "failed_replica", "reason",
            "nodes", "places",
        )  # fmt: skip

    def get_said(self, row: Run) -> dict[str, Any]:
        table = kinds.kind_of(row.job.kind).table
        private = [one.name for one in table if one.private and one.name != "env"]
        return {**row.said, **dict.fromkeys([] if self._is_owners(row) else private)}

    def get_variables(self, row: Run) -> list[str] | None:
        return sorted(row.env) if self._is_owners(row) else None

    def get_commit(self, row: Run) -> str | None:
        return row.commit if self._is_owners(row) else None

    def get_left_out(self, row: Run) -> dict[str, list[str]] | None:
        return row.left_out if self._is_owners(row) else None

    def _is_owners(self, row: Run) -> bool:
        return reads_private(self.context["who"], row.job)


class RunOfJobOut(RunOut):
    """A run among those of all jobs of a project: with the job that it is of."""

    job = serializers.CharField(source="job.short_id")
    name = serializers.CharField(source="job.name", help_text="of the job")

    class Meta(RunOut.Meta):
        fields = ("job", "name", *RunOut.Meta.fields)


class RunsWanted(serializers.Serializer[Any]):
    state = serializers.ChoiceField([runs.GOES_ON, *runs.ENDS], required=False)
    by = serializers.CharField(required=False, max_length=150, help_text="a user name")
    job = serializers.CharField(required=False, max_length=80, help_text="part of its name, or id")
    since = serializers.DateField(required=False, help_text="asked for on that day or later")
    until = serializers.DateField(required=False, help_text="on that day or before")


class DifferenceOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    a = serializers.CharField(allow_blank=True)
    b = serializers.CharField(allow_blank=True)


class ComparedOut(serializers.Serializer[Any]):
    said = DifferenceOut(many=True)
    ended = DifferenceOut(many=True)
    files = serializers.DictField(
        child=serializers.CharField(), help_text="path → added, removed or changed"
    )
    more_files = serializers.IntegerField()
    code_is_gone = serializers.BooleanField(help_text="a package is not kept any more")


class ArtifactOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    size = serializers.IntegerField()
    url = serializers.CharField(allow_null=True, help_text="of its copy; null: there is none")


class ArtifactsOut(serializers.Serializer[Any]):
    """What a run left: where it lies, where it was copied, and its files."""

    run = serializers.IntegerField()
    state = serializers.ChoiceField(OutputState.choices)
    message = serializers.CharField(allow_blank=True, help_text="why it is so")
    percent = serializers.IntegerField(allow_null=True)
    volume = serializers.CharField(allow_null=True, help_text="null: its folder is not there")
    volume_id = serializers.UUIDField(allow_null=True)
    folder = serializers.CharField()
    url = serializers.CharField(allow_blank=True, help_text='"": it stays in its volume')
    files = serializers.IntegerField()
    bytes = serializers.IntegerField()
    named = ArtifactOut(many=True, help_text="the first thousand, once they were copied")


def artifacts_out(run: Run) -> dict[str, Any]:
    """Return what a run left."""
    found = output_states.output_of(run)
    volume = run.output_volume if found.is_here else None
    is_there = found.state in {OutputState.COMPLETE, OutputState.PARTIAL}
    return {
        "run": run.launch,
        "state": found.state,
        "message": found.sentence,
        "percent": found.percent,
        "volume": volume.name if volume else None,
        "volume_id": volume.uid if volume else None,
        "folder": run.output_folder,
        "url": run.output_url,
        "files": found.files,
        "bytes": found.bytes,
        "named": [
            {"path": path, "size": size, "url": f"{run.output_url}{path}" if is_there else None}
            for path, size in found.named
        ],
    }


class WorkArtifacts(OneView):
    """What a run of a {one} left; its owner's alone, as its log."""

    pagination_class = None  # one answer
    demands: ClassVar[Mapping[str, str]] = {"GET": "read"}

    @classmethod
    def schema_of(cls, api: Api) -> dict[str, Any]:  # noqa: ARG003
        return {"get": extend_schema(responses=ArtifactsOut)}

    def get(self, request: Request, **_ids: Any) -> Response:  # noqa: ARG002
        row = self.row()
        require_owner(self.principal, row)
        run = runs.run_get(row, self.kwargs["run"])
        return Response(ArtifactsOut(artifacts_out(run)).data)


class WorkArtifactsCopied(OneView):
    """Copy once more what a run of a {one} left; what is there already is not sent again."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}

    @classmethod
    def schema_of(cls, api: Api) -> dict[str, Any]:  # noqa: ARG003
        return {"post": extend_schema(request=None, responses={202: ArtifactsOut})}

    def post(self, request: Request, **_ids: Any) -> Response:  # noqa: ARG002
        found = {"row": self.row(), "launch": self.kwargs["run"]}
        run = output_copies.output_again(principal=self.principal, **found)
        told = ArtifactsOut(artifacts_out(run)).data
        return Response(told, status=status.HTTP_202_ACCEPTED)


class FileOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    size = serializers.IntegerField()


class FilesBelowOut(serializers.Serializer[Any]):
    """Ask again until ``is_open``; the files are those that lie there now."""

    is_open = serializers.BooleanField()
    message = serializers.CharField(allow_blank=True, help_text="why it is not open")
    files = FileOut(many=True)
    complete = serializers.BooleanField(help_text="false: there are more than are told")


class WorkArtifactFiles(OneView):
    """Look into the folder that a run of a {one} writes to; its owner's alone, as its log."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "read"}
    reading_methods = frozenset({"POST"})  # it opens the file browser, and changes nothing

    @classmethod
    def schema_of(cls, api: Api) -> dict[str, Any]:  # noqa: ARG003
        return {"post": extend_schema(request=None, responses=FilesBelowOut)}

    def post(self, request: Request, **_ids: Any) -> Response:  # noqa: ARG002
        row = self.row()
        require_owner(self.principal, row)
        found = output_states.files_of(self.principal, runs.run_get(row, self.kwargs["run"]))
        if found.has_failed:
            raise Unavailable(found.message, code="files-away")
        files = [{"path": path, "size": size} for path, size in found.files]
        said = {"is_open": found.is_open, "message": found.message, "complete": found.complete}
        return Response(FilesBelowOut({**said, "files": files}).data)


class TensorBoardIn(serializers.Serializer[Any]):
    runs = serializers.ListField(
        child=serializers.IntegerField(min_value=1),
        required=False,
        max_length=MOST,
        help_text="shown beside each other; the latest where none is said",
    )
    beside = serializers.ListField(
        child=serializers.CharField(max_length=40),
        required=False,
        max_length=MOST,
        help_text="runs of other jobs of the project: JOB.RUN, or JOB for its latest",
    )


class TensorBoardOut(serializers.Serializer[Any]):
    """The workspace that shows it: that is asked for its address, stopped and deleted."""

    workspace = serializers.CharField()
    name = serializers.CharField()


class WorkTensorBoard(OneView):
    """Open TensorBoard on what runs of a {one} write: a workspace of one's own, one for the same
    runs.
    """

    demands: ClassVar[Mapping[str, str]] = {"POST": "read"}

    @classmethod
    def schema_of(cls, api: Api) -> dict[str, Any]:  # noqa: ARG003
        return {"post": extend_schema(request=TensorBoardIn, responses={202: TensorBoardOut})}

    def post(self, request: Request, **_ids: Any) -> Response:  # noqa: ARG002
        row, said = self.row(), self.given(TensorBoardIn)
        beside = [
            runs.run_named(self.principal, self.api.kind, row.project, text, "beside")
            for text in said.get("beside", ())
        ]
        who = {"principal": self.principal, "row": row}
        made = tensorboard_open(**who, launches=said.get("runs", ()), beside=beside)
        told = TensorBoardOut({"workspace": made.short_id, "name": made.name}).data
        return Response(told, status=status.HTTP_202_ACCEPTED)


class WorkRuns(OneView):
    """All runs of a {one}, the newest first."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "read"}

    @classmethod
    def schema_of(cls, api: Api) -> dict[str, Any]:  # noqa: ARG003
        return {"get": extend_schema(responses=RunOut(many=True))}

    def get(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        page = self.paginate_queryset(runs.runs_of(self.row())) or []
        told = RunOut(page, many=True, context={"who": self.principal})
        return self.get_paginated_response(told.data)


class WorkRunsOfAll(WorkAPIView):
    """All runs of all {many} that one may see, the newest first."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "read"}

    @classmethod
    def schema_of(cls, api: Api) -> dict[str, Any]:
        return {
            "get": extend_schema(
                operation_id=f"{api.collection}_runs_of_all",
                parameters=[RunsWanted],
                responses=RunOfJobOut(many=True),
            )
        }

    def get(self, request: Request, **_ids: str) -> Response:
        asked = RunsWanted(data=request.query_params)
        asked.is_valid(raise_exception=True)
        wanted = runs.Wanted(**asked.validated_data)
        found = runs.runs_in(self.principal, self.api.kind, self.project, wanted)
        page = self.paginate_queryset(found) or []
        told = RunOfJobOut(page, many=True, context={"who": self.principal})
        return self.get_paginated_response(told.data)


class WorkRunsDiff(OneView):
    """What two runs of a {one} differ in; those of the two last starts where none are named."""

    pagination_class = None  # one answer
    demands: ClassVar[Mapping[str, str]] = {"GET": "read"}

    @classmethod
    def schema_of(cls, api: Api) -> dict[str, Any]:  # noqa: ARG003
        numbers = [OpenApiParameter(name, int) for name in ("a", "b")]
        return {"get": extend_schema(parameters=numbers, responses=ComparedOut)}

    def get(self, request: Request, **_ids: str) -> Response:
        row, found = self.row(), []
        asked = {name: request.query_params.get(name, "") for name in ("a", "b")}
        for name, text in asked.items() if any(asked.values()) else ():
            found.append(runs.run_get(row, runs.run_number(text, name)))
        newer_first = found[::-1] or list(runs.runs_of(row)[:2])
        if not newer_first:
            raise NotFound(_("It has no run yet."))
        compared = runs.compare(
            newer_first[-1], newer_first[0], private=reads_private(self.principal, row)
        )
        return Response(ComparedOut(compared).data)


class WorkRunAgain(ActView):
    """Start what a run of a {one} was, with what is said changed: that becomes the {one}'s."""

    act: ClassVar[Callable[..., Any]] = staticmethod(runs.run_again)

    @classmethod
    def schema_of(cls, api: Api) -> dict[str, Any]:
        return {"post": extend_schema(request=api.edits, responses={202: api.gives})}

    def told(self) -> dict[str, Any]:
        has_body = "json" in (self.request.content_type or "")
        said = self.given(self.api.edits) if has_body else {}
        if said.pop("newest_image", False):
            raise wrong("newest_image", _("A run of before has the image that it had."))
        return {"launch": self.kwargs["run"], "changes": said}
