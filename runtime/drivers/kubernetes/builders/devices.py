"""What a container is told about devices: it sees the GPUs it was given, or none (C4). Pure.

The hooks of a node's GPU runtime read a container's environment before its program starts, and
an image brings one of its own: a CUDA image says "all". So every container that Berth makes is
told what stands here, its helpers and short checks too.
"""

from __future__ import annotations

from collections.abc import Mapping

# What those hooks would load from an image's own environment: emptied.
_LOADED = {"LD_AUDIT": "", "LD_PRELOAD": ""}
# Their device plugin names the given ones.
GIVEN: Mapping[str, str] = {**_LOADED, "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
NONE: Mapping[str, str] = {**_LOADED, "NVIDIA_VISIBLE_DEVICES": "void"}


def is_refused(name: str) -> bool:
    """What nobody may say: it reaches into those hooks."""
    return name.startswith(("LD_", "NVIDIA_")) and name != "LD_LIBRARY_PATH"


def named(values: Mapping[str, str]) -> list[dict[str, str]]:
    """As a container's ``env``, where it has no Secret."""
    return [{"name": name, "value": value} for name, value in values.items()]
