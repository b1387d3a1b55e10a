"""What the API says of file browsers."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class FilesOut(serializers.Serializer[Any]):
    """Ask again until ``is_open``; then ``url`` takes the same token as the API."""

    phase = serializers.CharField(help_text="closed, pending, starting, running, failed …")
    message = serializers.CharField(help_text="why it is not open, in words")
    is_open = serializers.BooleanField()
    # A field named like one of its base class.
    read_only = serializers.BooleanField(  # type: ignore[assignment]
        help_text="you may look, not change"
    )
    url = serializers.CharField(help_text="where the gate answers; see docs/dev/files.md")
    room_bytes = serializers.IntegerField(allow_null=True, help_text="what the size still leaves")
