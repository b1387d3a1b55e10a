"""Amounts of money: the platform has one currency (BERTH_CURRENCY), prices are plain numbers."""

from decimal import Decimal

from babel import Locale
from babel.numbers import format_currency
from django.conf import settings
from django.utils.translation import get_language, to_locale

_SMALLEST = Decimal("0.0001")  # what operators may write of a GiB and month


def price(amount: Decimal) -> str:
    """Return a price exactly as it was set, which may be less than a cent."""
    return _written(amount.quantize(_SMALLEST).normalize(), exact=True)


def money(amount: Decimal) -> str:
    """Return an amount to be paid, rounded as its currency is."""
    return _written(amount, exact=False)


def _written(amount: Decimal, *, exact: bool) -> str:
    language = Locale.parse(to_locale(get_language() or settings.LANGUAGE_CODE))
    return format_currency(
        amount, settings.BERTH_CURRENCY, locale=language, decimal_quantization=not exact
    )
