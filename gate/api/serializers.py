"""What the API says of the ways into a workspace."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


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
