"""Workspaces of the fake world, as in tests/notebooks."""

from tests.notebooks.conftest import launch, presets, settle, world

__all__ = ["launch", "presets", "settle", "world"]
