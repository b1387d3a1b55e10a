"""Input that says no to what it does not know (A5: nobody sets columns he was not offered)."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers


class StrictSerializer(serializers.Serializer[Any]):
    """Unknown fields are an error that names them, never silently dropped."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = sorted(str(key)[:80] for key in data if key not in self.fields)
            if unknown:
                raise serializers.ValidationError(
                    {key: [_("There is no such field.")] for key in unknown[:20]}
                )
        return super().to_internal_value(data)


@extend_schema_field(OpenApiTypes.STR)
class CurrencyField(serializers.Field[Any, Any, str, Any]):
    """The currency of the prices beside it (BERTH_CURRENCY)."""

    def __init__(self) -> None:
        super().__init__(source="*", read_only=True, help_text="of the prices, by ISO 4217")

    def to_representation(self, value: Any) -> str:
        del value
        return str(settings.BERTH_CURRENCY)
