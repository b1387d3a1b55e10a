"""ETag and If-Match from a row's generation: nobody overwrites a change he has not seen."""

from typing import Protocol

from django.utils.translation import gettext as _
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import BerthError


class PreconditionFailed(BerthError):  # noqa: N818 - named like its siblings in common.errors
    """If-Match names a version that is no longer the current one."""

    status = 412
    code = "precondition-failed"


class Versioned(Protocol):
    """Anything with a generation; ``uid`` keeps tags of different rows apart."""

    @property
    def uid(self) -> object: ...
    @property
    def generation(self) -> int: ...


def etag_of(row: Versioned) -> str:
    return f'"{str(row.uid)[:8]}-{row.generation}"'


def check_if_match(request: Request, row: Versioned) -> None:
    """Raise PreconditionFailed unless If-Match is absent, ``*`` or the row's current tag.

    Call it inside the transaction that changes the row, on a row read there.
    """
    given = request.headers.get("If-Match", "").strip()
    if not given or given == "*":
        return
    tags = {tag.strip().removeprefix("W/") for tag in given.split(",")}
    if etag_of(row) not in tags:
        raise PreconditionFailed(
            _("It was changed since you read it. Read it again, then repeat the change."),
            extra={"etag": etag_of(row)},
        )


def with_etag(response: Response, row: Versioned) -> Response:
    response["ETag"] = etag_of(row)
    return response
