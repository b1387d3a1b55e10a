"""Every text that a person can read exists in Japanese too."""

from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from tools import messages

PO = messages.ROOT / "locale" / "ja" / "LC_MESSAGES" / "django.po"


@pytest.mark.real  # part of make test: while texts are being written, make check stays quick
def test_every_text_has_a_japanese_translation() -> None:
    with Path(PO).open("rb") as file:
        catalog = read_po(file, locale="ja")
    catalog.update(messages.collect(), no_fuzzy_matching=True)
    lacking = [str(message.id)[:80] for message in messages.missing(catalog)]
    assert lacking == [], f"{len(lacking)} texts; run `make messages` and translate locale/ja"


def test_texts_are_found_in_python_and_in_templates() -> None:
    ids = {m.id for m in messages.collect()}
    assert "Skip to content" in ids  # templates/base.html
    assert "There is no such project, or you are not a member of it." in ids  # projects/access.py
    assert ("%(n)d minute", "%(n)d minutes") in ids
