"""Sizes for people: the unit that fits, and never on another line than its number."""

import pytest

from common.templatetags.berth import filesize, mib
from notebooks.models import Preset
from quotas.choices import words
from work.ui.sizes import size_words


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (filesize(5), "5 B"),
        (filesize(1023), "1023 B"),
        (filesize(1536), "1.5 KiB"),
        (filesize(5 * 2**50), "5120 TiB"),
        (mib(512), "512 MiB"),
        (mib(4096), "4 GiB"),
        (mib(1.5 * 2**20), "1.5 TiB"),
        (mib(3 * 2**40), "3072 PiB"),
        (words("memory_mib", 512), "512 MiB"),
        (words("storage_mib", 4608), "4.5 GiB"),
    ],
)
def test_number_and_unit_stay_together(said, shown):
    assert said == shown.replace(" ", "\N{NO-BREAK SPACE}")


def test_gpus_stay_on_the_line_of_their_number():
    row = Preset(cpu_milli=1000, memory_mib=1024, gpus=2, gpu_flavor="a100-80,h100-80")
    assert size_words(row).endswith(" · 2\N{NO-BREAK SPACE}a100-80 / h100-80")


def test_what_is_not_known_is_no_number():
    assert (filesize(None), mib(None)) == ("–", "–")  # noqa: RUF001 - as pages show it
