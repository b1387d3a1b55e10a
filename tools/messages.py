"""Collects the texts to translate into locale/django.pot and brings every catalogue up to date.

No gettext program is needed: Python files are read by Babel, Django templates are turned into
something Babel reads by Django's own ``templatize``. Translations that exist are kept; a text
that changed is new (no guessing), one that is gone is dropped. ``--check`` changes nothing and
fails when a catalogue is behind or lacks a translation.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")

from babel.messages.catalog import Catalog, Message  # noqa: E402
from babel.messages.extract import extract_python  # noqa: E402
from babel.messages.mofile import write_mo  # noqa: E402
from babel.messages.pofile import read_po, write_po  # noqa: E402

SILENT = {"dataplane"}  # what runs next to the data knows no languages
_LAYERS = ConfigParser()
_LAYERS.read(ROOT / ".importlinter")
# Every package of the product has its place there: none is forgotten here.
APPS = tuple(sorted({*_LAYERS["importlinter"]["root_packages"].split()} - SILENT))
KEYWORDS = {
    "_": None,
    "_t": None,
    "_lazy": None,
    "_n": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
}
POT = ROOT / "locale" / "django.pot"
HEADER = "# Texts of Berth. Made by tools/messages.py; translate the .po files.\n"
_LITERAL = r"""u?(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
_CALL = re.compile(rf"\b(n?p?gettext|_)\(\s*{_LITERAL}(?:\s*,\s*{_LITERAL})*")
_PLACE = re.compile(r"%\((\w+)\)[a-z]")


def sources() -> Iterator[tuple[Path, bytes]]:
    for app in APPS:
        for path in sorted((ROOT / app).rglob("*.py")):
            if "migrations" not in path.parts and "tests" not in path.parts:
                yield path, path.read_bytes()
    from django.utils.translation.template import templatize

    folders = [ROOT / "templates", *(ROOT / app / "templates" for app in APPS)]
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.suffix in {".html", ".txt"}):
            text = templatize(path.read_text(), origin=str(path.relative_to(ROOT)))
            # what templatize gives is not quite Python: keep the calls, one per line
            calls = [match.group() + ")" for match in _CALL.finditer(text)]
            yield path, "\n".join(calls).encode()


def collect() -> Catalog:
    catalog = Catalog(project="Berth", charset="utf-8", fuzzy=False)
    for path, data in sources():
        where = str(path.relative_to(ROOT))
        found: Any = extract_python(BytesIO(data), KEYWORDS, [], {})
        for _line, function, texts, _comments in found:
            _add(catalog, where, function, texts)
    return catalog


def _add(catalog: Catalog, where: str, function: str, texts: str | tuple[str, ...]) -> None:
    spec = KEYWORDS[function]
    words = [texts] if isinstance(texts, str) else list(texts or ())
    if not words or not isinstance(words[0], str) or not words[0].strip():
        return
    context = None
    if spec and isinstance(spec[0], tuple):
        context, words = words[0], words[1:]
    wanted = len(spec) - (1 if context else 0) if spec else 1
    words = [w for w in words[:wanted] if isinstance(w, str)]
    if len(words) < wanted:
        return
    catalog.add(words[0] if wanted == 1 else tuple(words), locations=[(where, 1)], context=context)


def written(catalog: Catalog) -> bytes:
    """Return the file; without dates and line numbers, so that only texts make a difference."""
    out = BytesIO()
    catalog.header_comment = HEADER.rstrip("\n")
    write_po(
        out,
        catalog,
        sort_by_file=True,
        include_lineno=False,
        omit_header=False,
        ignore_obsolete=True,
        width=98,
    )
    lines = out.getvalue().decode().splitlines(keepends=True)
    volatile = ('"POT-Creation-Date', '"PO-Revision-Date', '"Generated-By', '"Report-Msgid')
    kept = [x for x in lines if not x.startswith((*volatile, '"Last-Translator', '"Language-Team'))]
    return "".join(kept).encode()


def _texts(value: str | list[str] | tuple[str, ...] | None) -> list[str]:
    return [value or ""] if value is None or isinstance(value, str) else list(value)


def missing(catalog: Catalog) -> list[Message]:
    """Return what has no translation, or one with other places for values."""
    found = []
    for message in catalog:
        if not message.id:
            continue
        texts = _texts(message.string)
        if not all(texts) or message.fuzzy:  # a guess is not compiled
            found.append(message)
            continue
        places = set(_PLACE.findall(_texts(message.id)[-1]))
        if any(
            set(_PLACE.findall(text)) - places or places - set(_PLACE.findall(text)) - {"n"}
            for text in texts
        ):
            found.append(message)
    return found


def compile_all() -> None:
    """Write the .mo files that Django reads, where the .po is newer."""
    for path in sorted((ROOT / "locale").glob("*/LC_MESSAGES/django.po")):
        compiled = path.with_suffix(".mo")
        if compiled.exists() and compiled.stat().st_mtime >= path.stat().st_mtime:
            continue
        with path.open("rb") as file:
            catalog = read_po(file, locale=path.parts[-3])
        fresh = compiled.with_suffix(".mo.new")
        with fresh.open("wb") as file:
            write_mo(file, catalog)
        fresh.replace(compiled)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail when behind")
    options = parser.parse_args()
    template = collect()
    behind = False
    if options.check:
        behind = not POT.exists() or POT.read_bytes() != written(template)
    else:
        POT.write_bytes(written(template))
    for path in sorted((ROOT / "locale").glob("*/LC_MESSAGES/django.po")):
        language = path.parts[-3]
        with path.open("rb") as file:
            catalog = read_po(file, locale=language)
        catalog.update(template, no_fuzzy_matching=True)
        catalog.fuzzy = False
        lacking = missing(catalog)
        if not options.check:
            path.write_bytes(written(catalog))
        print(f"{language}: {len(catalog)} texts, {len(lacking)} without a right translation")
        behind = behind or bool(lacking)
    if not options.check:
        compile_all()
    return 1 if options.check and behind else 0


if __name__ == "__main__":
    sys.exit(main())
