"""Every text that a person can read exists in Japanese too."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from babel.messages.pofile import read_po
from django.utils.translation import gettext

from common.streams import look
from gate import internal
from runtime import gateway
from tools import messages

PO = messages.ROOT / "locale" / "ja" / "LC_MESSAGES" / "django.po"


@pytest.mark.real  # part of make test: while texts are being written, make check stays quick
def test_every_text_has_a_japanese_translation() -> None:
    with Path(PO).open("rb") as file:
        catalog = read_po(file, locale="ja")
    catalog.update(messages.collect(), no_fuzzy_matching=True)
    lacking = [str(message.id)[:80] for message in messages.missing(catalog)]
    assert lacking == [], f"{len(lacking)} texts; run `make messages` and translate locale/ja"


def test_texts_are_found_in_python_and_in_templates(monkeypatch: Any) -> None:
    monkeypatch.setattr(messages, "APPS", ("common", "projects"))  # of all, the test above
    ids = {m.id for m in messages.collect()}
    assert "Skip to content" in ids  # templates/base.html
    assert "There is no such project, or you are not a member of it." in ids  # projects/access.py
    assert ("%(n)d minute", "%(n)d minutes") in ids


async def _told_by_the_gate(language: str) -> str:
    headers = {"Authorization": "Bearer x", "Accept-Language": language}
    app: Any = internal.app(None)  # type: ignore[arg-type]
    door = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=door, base_url="http://gate", headers=headers) as client:
        answer = await client.post("/internal/test/word", json={})
    assert (
        await look(lambda: gettext("Terminal")) == "Terminal"
    )  # nobody's language stays behind in a thread
    return str(answer.json()["said"])


def test_the_gate_answers_in_the_language_of_whoever_reads_it(
    monkeypatch: Any, settings: Any
) -> None:
    messages.compile_all()
    settings.BERTH_GATE_TOKEN = "x"
    monkeypatch.setitem(gateway._handlers, "test/word", lambda _: {"said": gettext("Terminal")})
    assert asyncio.run(_told_by_the_gate("ja")) == "ターミナル"
    assert asyncio.run(_told_by_the_gate("en")) == "Terminal"
    assert asyncio.run(_told_by_the_gate("no such")) == "Terminal"
