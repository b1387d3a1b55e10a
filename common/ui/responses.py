"""What pages answer with: a redirect, a form that says what was wrong, a document as YAML."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml
from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse

from common.errors import BerthError, Invalid


def go(request: HttpRequest, url: str) -> HttpResponse:
    """Redirect; an htmx form is told to go there as a whole page."""
    if getattr(request, "htmx", False):
        return HttpResponse(status=204, headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)


def show_error(
    form: forms.BaseForm, error: BerthError, names: Mapping[str, str] | None = None
) -> None:
    """Put what a service said where the person looks: at the field, or on top.

    ``names`` leads from a service's field to the form's, where they differ.
    """
    if not error.fields:
        form.add_error(None, error.message)
    for field, said in error.fields.items():
        name = (names or {}).get(field, field)
        form.add_error(name if name in form.fields else None, said)


def refuse(
    request: HttpRequest,
    form: forms.BaseForm,
    error: BerthError,
    names: Mapping[str, str] | None = None,
) -> int:
    """The same where the answer is the form with all that was typed; return its status.

    A refusal is written down as one that becomes a page of its own.
    """
    request.berth_error = error  # type: ignore[attr-defined]  # projects.middleware records it
    show_error(form, error, names)
    return status_of(error)


def status_of(error: BerthError) -> int:
    """Return the status of a page that shows a refused form again."""
    return 422 if isinstance(error, Invalid) else error.status


class Refused:
    """A form that a template wrote by hand and a service refused: it stands at ``path``.

    ``typed`` is what was sent, ``said`` the sentence for its field. Where no field is wrong the
    page says it, too: its form may not be there any more.
    """

    def __init__(self, request: HttpRequest, error: BerthError) -> None:
        self.path = request.path
        self.is_of_a_field = bool(error.fields)
        self.typed = request.POST.dict()
        self.said = " ".join(said for each in error.fields.values() for said in each)
        self.said = self.said or error.message


def to_yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)


def as_file(text: bytes, name: str) -> HttpResponse:
    """Return a text to be saved; ``name`` is ours, without quotes."""
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


_ACTIVE = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def csv_cell(value: Any) -> str:
    """Return text that no spreadsheet takes for a formula; numbers stay numbers."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    text = "" if value is None else str(value)
    text = text.replace("\x00", "")
    return f"'{text}" if text.lstrip(" ").startswith(_ACTIVE) else text


def csv_lines(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield the file line by line; a byte order mark lets Excel read UTF-8."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    yield "\ufeff"
    writer.writerow(head)
    for row in rows:
        writer.writerow([csv_cell(v) for v in row])
        if buffer.tell() > 1 << 15:
            yield _drain(buffer)
    yield _drain(buffer)


def _drain(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text


def csv_download(
    name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]
) -> StreamingHttpResponse:
    """Return the streamed file as a download."""
    response = StreamingHttpResponse(csv_lines(head, rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
