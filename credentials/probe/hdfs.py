"""Whether a namenode lets a name or a token in, and what it may list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from django.utils.translation import gettext as _

from common.outbound import Answer, Bounds, Client
from credentials.messages import Sentence
from credentials.outside import policy_of_stores
from credentials.probe import verdict
from credentials.probe.verdict import SECONDS, Verdict

_OK, _UNAUTHORIZED, _TOO_MANY, _ERRORS = 200, 401, 429, 500
_BUSY = frozenset({"RetriableException", "SafeModeException"})
_BODY = 4 * 1024 * 1024  # a thousand names


def tried(public: Mapping[str, Any], secret: Mapping[str, str]) -> Verdict:
    folder, token = str(public.get("folder", "")), secret.get("delegation_token", "")
    who = {"delegation": token} if token else {"user.name": str(public["username"])}
    query = urlencode({"op": "LISTSTATUS_BATCH", **who})
    url = f"{public['endpoint']}/webhdfs/v1{quote(folder) or '/'}?{query}"
    with Client(policy_of_stores(), Bounds(seconds=SECONDS, body_bytes=_BODY)) as client:
        answer = client.request("GET", url, insecure=url.startswith("http://"))
    return _verdict(answer, folder or "/", with_token=bool(token))


def _verdict(answer: Answer, folder: str, *, with_token: bool) -> Verdict:
    said, named = _said(answer), {"path": folder}
    if answer.status == _OK and "DirectoryListing" in said:
        if with_token:
            return verdict.accepted(Sentence(_("The token may list “%(path)s”."), named))
        text = _("This user may list “%(path)s”. The namenode believes every name.")
        return verdict.accepted(Sentence(text, named))
    error = str(said.get("RemoteException", {}).get("exception", ""))
    if error.endswith("InvalidToken") or answer.status == _UNAUTHORIZED:
        return verdict.refused(
            _("The namenode does not accept this token: it may have run out.")
            if with_token
            else _("The namenode wants a proof: store a delegation token.")
        )
    if answer.status == _TOO_MANY or answer.status >= _ERRORS or error in _BUSY:
        return verdict.unknown(_("The namenode is too busy to answer; try again later."))
    sentences: dict[str, str | Sentence] = {
        "StandbyException": _("This namenode is on standby: name the active one."),
        "AccessControlException": Sentence(
            _("It is let in, but it may not list “%(path)s”."), named
        ),
        "FileNotFoundException": Sentence(_("It is let in, but there is no “%(path)s”."), named),
    }
    other = _("What answers there does not speak WebHDFS of Hadoop 3.")
    return verdict.refused(sentences.get(error, other))


def _said(answer: Answer) -> dict[str, Any]:
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    fits = isinstance(said, dict) and isinstance(said.get("RemoteException", {}), dict)
    return said if fits else {}
