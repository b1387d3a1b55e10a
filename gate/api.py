"""The API of the gate: where it is. The streams themselves are served by the gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.urls import path
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import Forbidden
from gate.access import gate_url
from gate.rpc import host_key
from notebooks import where
from notebooks.kind import WORKSPACE
from notebooks.models import Workspace
from notebooks.ssh import ssh_of
from projects.access import Permission
from projects.api.base import ProjectAPIView
from work.selectors import access_of, workload_get


class SshOut(serializers.Serializer[Any]):
    host = serializers.CharField()
    port = serializers.IntegerField()
    user = serializers.CharField()
    command = serializers.CharField()
    host_key = serializers.CharField(
        allow_null=True,
        help_text="as in known_hosts, without the host; null: the gate does not say it now",
    )
    fingerprint = serializers.CharField(allow_null=True, help_text="of the host's key")


class KubectlOut(serializers.Serializer[Any]):
    namespace = serializers.CharField()
    name = serializers.CharField()
    pod = serializers.CharField()


class WaysOut(serializers.Serializer[Any]):
    """Addresses of the gate take the same token as the API. On one machine all are null."""

    terminal = serializers.CharField(allow_null=True)
    exec = serializers.CharField(allow_null=True)
    files = serializers.CharField(allow_null=True)
    logs = serializers.CharField(allow_null=True)
    ssh = SshOut(allow_null=True)
    kubectl = KubectlOut(allow_null=True)


class WorkspaceWays(ProjectAPIView):
    """Where terminal, commands, files, log and SSH of a workspace on a cluster are."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": Permission.WORKSPACE_READ}
    serializer_class = WaysOut

    @extend_schema(responses=WaysOut)
    def get(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        row = workload_get(self.principal, WORKSPACE, workspace, self.project)
        if not access_of(self.principal.user, row):
            raise Forbidden(_("Only its owner, and the people they let in, may open a workspace."))
        kubectl = where.kubectl_of(row)
        ways: dict[str, Any] = dict.fromkeys(WaysOut().fields)
        if kubectl is not None:
            ways = {
                "terminal": gate_url(row, "terminal", socket=True),
                "exec": gate_url(row, "exec", socket=True),
                "files": gate_url(row, "files"),
                "logs": gate_url(row, "logs"),
                "ssh": _ssh(row),
                "kubectl": kubectl,
            }
        return Response(WaysOut(ways).data)


def _ssh(row: Workspace) -> dict[str, Any] | None:
    way = ssh_of(row)
    if way is None:
        return None
    key = host_key()
    return {
        "host": way.host,
        "port": way.port,
        "user": way.user,
        "command": way.command,
        "host_key": key and key.line,
        "fingerprint": key and key.fingerprint,
    }


urlpatterns = [
    path(
        "projects/<slug:project>/workspaces/<slug:workspace>/ways",
        WorkspaceWays.as_view(),
        name="api-workspace-ways",
    ),
]
