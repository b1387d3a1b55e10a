"""Prices are written with the platform's currency, as the reader's language does it."""

from decimal import Decimal
from typing import Any

import pytest
from django.utils.translation import override

from common.templatetags.berth import money, price


@pytest.mark.parametrize(
    ("currency", "language", "amount", "written"),
    [
        ("USD", "en", "2.40", "$2.40"),
        ("USD", "en", "1234567.5", "$1,234,567.50"),
        ("EUR", "en", "12", "€12.00"),
        ("JPY", "en", "240.00", "¥240"),
        ("JPY", "ja", "1250", "\N{FULLWIDTH YEN SIGN}1,250"),
        ("USD", "en", "0.0025", "$0.0025"),
    ],
)
def test_a_price_is_written_exactly_with_its_currency(
    settings: Any, currency: str, language: str, amount: str, written: str
) -> None:
    settings.BERTH_CURRENCY = currency
    with override(language):
        assert price(Decimal(amount)) == written


def test_an_amount_to_pay_is_rounded_as_its_currency_is(settings: Any) -> None:
    settings.BERTH_CURRENCY = "USD"
    assert money(Decimal("5.00390625")) == "$5.00"
    settings.BERTH_CURRENCY = "JPY"
    assert money(Decimal("5.60")) == "¥6"


def test_no_language_is_english(settings: Any) -> None:
    settings.BERTH_CURRENCY = "USD"
    with override(None):
        assert price(Decimal("2.4")) == "$2.40"
