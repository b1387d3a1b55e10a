"""Whether a host of Git takes a token: the same question that ``git clone`` asks first."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from common.outbound import Answer, Bounds, Client
from credentials.messages import Sentence
from credentials.outside import policy_of_stores
from credentials.probe import verdict
from credentials.probe.verdict import SECONDS, Verdict

_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 200, 401, 403, 404
_SERVICE = "application/x-git-upload-pack-advertisement"
# Hosts whose API is elsewhere; the others have it at their own address.
_GITHUB = {"github.com": "https://api.github.com/user"}


def tried(public: Mapping[str, Any], secret: Mapping[str, str]) -> Verdict:
    host, path = str(public["host"]), str(public.get("repository", ""))
    pair = f"{public['username']}:{secret['token']}"
    basic = f"Basic {base64.b64encode(pair.encode()).decode()}"
    with Client(policy_of_stores(), Bounds(seconds=SECONDS)) as client:
        if path:
            return _repository(client, host, path, basic)
        return _person(client, host, secret["token"])


def _repository(client: Client, host: str, path: str, basic: str) -> Verdict:
    url = f"https://{host}/{path}.git/info/refs?service=git-upload-pack"
    named = {"path": path}
    if _is_refs(client.request("GET", url)):
        text = Sentence(_("Everybody may read “%(path)s”, so the token was not asked for."), named)
        return verdict.unknown(text)
    answer = client.request("GET", url, headers={"Authorization": basic})
    if _is_refs(answer):
        return verdict.accepted(Sentence(_("The token opens “%(path)s”."), named))
    if answer.status == _UNAUTHORIZED:
        return verdict.refused(_("The host does not accept this token."))
    if answer.status in {_FORBIDDEN, _NOT_FOUND}:
        text = Sentence(
            _("The token does not open “%(path)s”, or there is no such repository."), named
        )
        return verdict.refused(text)
    return verdict.unknown(_("What answers there is not a host of Git."))


def _is_refs(answer: Answer) -> bool:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip()
    return answer.status == _OK and kind == _SERVICE


def _person(client: Client, host: str, token: str) -> Verdict:
    """Without a repository: the ways in which GitHub, GitLab and Gitea say who one is."""
    bearer = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    urls = (
        [_GITHUB[host]]
        if host in _GITHUB
        else [f"https://{host}/api/{version}/user" for version in ("v4", "v1")]
    )
    for url in urls:
        answer = client.request("GET", url, headers=bearer)
        kind = answer.headers.get("content-type", "")
        if answer.status == _OK and kind.startswith("application/json"):
            return verdict.accepted(_("The host accepts this token."))
        if answer.status == _UNAUTHORIZED and kind.startswith("application/json"):
            return verdict.refused(_("The host does not accept this token."))
        if answer.status == _FORBIDDEN and kind.startswith("application/json"):
            break
    return verdict.unknown(_("The host does not tell without a repository. Name one to test with."))
