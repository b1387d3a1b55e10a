"""OpenAPI: every operation also documents the problem document."""

from drf_spectacular.openapi import AutoSchema


class BerthAutoSchema(AutoSchema):
    """The schema class of all views; the API owner extends it."""
