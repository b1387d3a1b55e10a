"""People who hold more than a session are asked about at the provider.

Only while ``BERTH_OIDC_REFUSED`` is ``person``. At sign-in the refresh token is kept sealed, one
per person; a duty of the worker asks about each of them with it, also about those who are signed
in nowhere. Nobody else uses the token: a provider that rotates them takes two askers for a thief.

The provider's no keeps the person out (services.refusals). What is no such no: an error about
something else, no answer, a wish to see the person (``interaction_required``, which ends the
sessions only), a no to nearly everybody at once, and a no to a token that a question whose answer
was lost, or a long time without any, may have ended: the person is warned a day before.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import requests
import structlog
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from urllib3.exceptions import NewConnectionError, SSLError

from accounts import hooks
from accounts.crypto import seal, unseal
from accounts.models import ProviderGrant, User
from accounts.oidc.provider import OidcAdapter
from accounts.services.people import user_refuse, user_warn
from common.clock import now

BATCH = 32
ASKERS = 8
MAX_BATCHES = 100
WARNED_FOR = timedelta(hours=24)
# Nobody asked for so long (no worker, an old backup put back): the token may have run out.
STALE = timedelta(hours=1)
GROUPS_EVERY = timedelta(minutes=5)  # how often a usual token would have brought them
# That many at once, and more than half of those asked: the provider lost something, not they.
TOO_MANY = 10
_PAST = datetime(2000, 1, 1, tzinfo=UTC)
_log = structlog.get_logger(__name__)


# A no to this person (RFC 6749 5.2, OpenID Connect Core 3.1.2.6). Every other error tells of the
# client, of the provider or of what stands before it, as a rate limit does.
_NO = frozenset({"invalid_grant", "interaction_required", "login_required", "consent_required"})
_DEFAULT_LIFE = 8 * 3600  # the provider says nothing about time
TIMEOUT = 5
# What may go wrong without a yes or a no.
TROUBLE = (requests.RequestException, OAuth2Error, ValueError, KeyError)


class Refused(Exception):  # noqa: N818 - an answer, and no fault
    """The provider says no to this person. ``error`` is its word for it."""

    def __init__(self, error: str, description: str = "") -> None:
        super().__init__(error)
        self.error = error
        self.description = description


class SomebodyElse(OAuth2Error):  # noqa: N818 - as Refused
    """The new tokens are another person's."""


def renew(adapter: OidcAdapter, refresh: str) -> dict[str, Any]:
    """Return the provider's new tokens; Refused is its no, one of TROUBLE is neither."""
    app = adapter.get_provider().app
    body = {"grant_type": "refresh_token", "refresh_token": refresh}
    auth = (app.client_id, app.secret) if adapter.basic_auth else None
    if auth is None:
        body |= {"client_id": app.client_id, "client_secret": app.secret}
    with get_adapter().get_requests_session() as session:
        response = session.post(
            adapter.access_token_url, data=body, auth=auth, timeout=TIMEOUT, allow_redirects=False
        )
    _raise_for_no(response)
    response.raise_for_status()
    answer: dict[str, Any] = response.json()
    if not isinstance(answer, dict):
        raise OAuth2Error("What answers there is not where tokens are renewed.")
    return answer


def claims_of(adapter: OidcAdapter, tokens: dict[str, Any], sub: str) -> dict[str, Any]:
    """Return the claims of the new id_token, if there is one; it must tell of the same person."""
    if not isinstance(tokens.get("id_token"), str):
        return {}
    claims = adapter.verified_claims(adapter.get_provider().app, tokens["id_token"])
    if claims.get("sub") != sub:
        raise SomebodyElse("The renewed token tells of somebody else.")
    return claims


def groups_of(
    adapter: OidcAdapter, tokens: dict[str, Any], claims: dict[str, Any], sub: str
) -> list[str] | None:
    """Return the person's groups by renewed tokens with these ``claims``; None: nothing was said.

    Many providers tell groups at userinfo only, and some bring no id_token here.
    """
    if not settings.BERTH_OIDC_GROUPS_CLAIM or settings.BERTH_OIDC_GROUPS_CLAIM in claims:
        return hooks.groups_in(claims)
    said = adapter.userinfo(str(tokens.get("access_token") or ""), sub) | claims
    return hooks.groups_in(said) if said else None


def good_until(tokens: dict[str, Any], claims: dict[str, Any]) -> float:
    """Return when new tokens end, in seconds since the epoch."""
    life = int(tokens.get("expires_in") or 0)
    return time.time() + life if life > 0 else end_of(None, claims)


def end_of(expires_at: datetime | None, claims: dict[str, Any]) -> float:
    said = [float(claims["exp"])] if claims.get("exp") else []
    if expires_at is not None:
        said.append(expires_at.timestamp())
    return max(said) if said else time.time() + _DEFAULT_LIFE


def _raise_for_no(response: requests.Response) -> None:
    if not 400 <= response.status_code < 500:  # noqa: PLR2004 - HTTP
        return
    try:
        said = response.json()
    except ValueError:
        return
    if isinstance(said, dict) and str(said.get("error")) in _NO:
        raise Refused(said["error"], str(said.get("error_description") or ""))


@dataclass(frozen=True)
class _Held:
    """A row whose question is ours to ask, until somebody signs in or asks again."""

    row: ProviderGrant
    refresh: str
    asked_at: datetime

    def change(self, **columns: Any) -> bool:
        rows = ProviderGrant.objects.filter(pk=self.row.pk, asked_at=self.asked_at)
        return bool(rows.update(**columns))


@dataclass(frozen=True)
class _Answer:
    tokens: dict[str, Any] = field(default_factory=dict)
    groups: list[str] | None = None  # None: nothing was said of them, or they were not asked for
    until: float = 0.0
    no: Refused | None = None
    trouble: str = ""
    # False: the token may have been used up all the same.
    is_token_safe: bool = True


def is_on() -> bool:
    return bool(settings.BERTH_OIDC_ISSUER) and settings.BERTH_OIDC_REFUSED == "person"


def keep(user: User, account: SocialAccount, refresh: str, until: float) -> bool:
    """Keep what a sign-in brought; False: there is nothing to ask about the person with."""
    end = datetime.fromtimestamp(until, UTC)
    if not refresh:  # some providers give one at the first sign-in only
        rows = ProviderGrant.objects.filter(user=user, account=account).exclude(refresh="")
        return bool(rows.update(until=end, said=""))
    ProviderGrant.objects.update_or_create(
        user=user,
        defaults={
            "account": account,
            "refresh": seal(refresh),
            "until": end,
            "asked_at": now(),
            "is_unsure": False,
            "groups_at": now(),
            "refuse_at": None,
            "said": "",
        },
    )
    return True


def lasts_until(user: User) -> float:
    """Return until when sessions that go by the kept token last; 0: they are over."""
    found = ProviderGrant.objects.filter(user=user).values_list("until", flat=True).first()
    return found.timestamp() if found is not None else 0.0


def ask_due() -> int:
    """Ask about everybody when it is somebody's turn; return how many answered."""
    if not is_on():
        ProviderGrant.objects.exclude(refresh="").delete()  # the setting was taken back
        return 0
    _refuse_warned()
    every = timedelta(seconds=settings.BERTH_OIDC_ASK_SECONDS)
    at = now()
    if not _askable(at - every).exists():
        return 0
    # In one wave, so that a provider that lost everybody is seen to do so.
    asked = 0
    for _turn in range(MAX_BATCHES):
        rows = list(_askable(at - every / 2).order_by("asked_at")[:BATCH])
        count = _ask_all(rows) if rows else 0
        asked += count
        if not count:
            break
    return asked


def _askable(latest: datetime) -> QuerySet[ProviderGrant]:
    rows = ProviderGrant.objects.select_related("user", "account").exclude(refresh="")
    return rows.filter(asked_at__lte=latest, user__is_active=True)


def _refuse_warned() -> None:
    """Keep those out who were warned and did not come."""
    for row in ProviderGrant.objects.select_related("user").filter(refuse_at__lte=now())[:BATCH]:
        user_refuse(user=row.user, said=row.said)
        ProviderGrant.objects.filter(pk=row.pk).update(refuse_at=None)


def _ask_all(rows: list[ProviderGrant]) -> int:
    """Ask about these at once; 0: the provider is away."""
    adapter = OidcAdapter(HttpRequest())
    try:
        _ = adapter.openid_config  # kept by the adapter for all of them
    except TROUBLE as error:
        _log.warning("oidc_ask_failed", error=type(error).__name__)
        return 0
    held = list(_claimed(rows))
    answers: list[tuple[_Held, _Answer]] = []
    with ThreadPoolExecutor(ASKERS) as pool:
        asked = {pool.submit(_ask, adapter, one): one for one in held}
        for future in as_completed(asked):
            answers.append((asked[future], future.result()))
            _note(*answers[-1])  # at once: the old token may be worth nothing any more
    _act(answers)
    return sum(1 for _one, answer in answers if not answer.trouble)


def _claimed(rows: list[ProviderGrant]) -> Iterator[_Held]:
    for row in rows:
        refresh = unseal(row.refresh)
        if refresh is None:  # its key was thrown away
            ProviderGrant.objects.filter(pk=row.pk, asked_at=row.asked_at).delete()
            continue
        held = _Held(row, refresh, now())
        row.is_unsure = row.is_unsure or held.asked_at - row.asked_at > STALE
        # Unsure until the answer is written down: this process may end before.
        mine = ProviderGrant.objects.filter(pk=row.pk, asked_at=row.asked_at)
        if mine.update(asked_at=held.asked_at, is_unsure=True):
            yield held


def _ask(adapter: OidcAdapter, held: _Held) -> _Answer:
    """Runs beside others and touches no database."""
    try:
        tokens = renew(adapter, held.refresh)
    except Refused as no:
        return _Answer(no=no)
    except TROUBLE as error:
        return _Answer(trouble=type(error).__name__, is_token_safe=_left_alone(error))
    try:
        claims = claims_of(adapter, tokens, held.row.account.uid)
        found = _groups(adapter, held, tokens, claims)
        return _Answer(tokens, found, until=good_until(tokens, claims))
    except SomebodyElse as error:
        return _Answer(trouble=type(error).__name__, is_token_safe=False)
    except (*TROUBLE, TypeError) as error:  # the new token is kept all the same
        return _Answer(tokens, trouble=type(error).__name__)


def _groups(
    adapter: OidcAdapter, held: _Held, tokens: dict[str, Any], claims: dict[str, Any]
) -> list[str] | None:
    """Return the groups where it is their turn; what goes wrong here spoils no other answer."""
    last = held.row.groups_at
    if last is not None and last > now() - GROUPS_EVERY:
        return None
    try:
        return groups_of(adapter, tokens, claims, held.row.account.uid)
    except TROUBLE as error:
        _log.warning("oidc_groups_not_told", error=type(error).__name__)
        return None


def _left_alone(error: Exception) -> bool:
    """Whether the provider surely did nothing with the token that it was sent."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return error.response.status_code < 500  # noqa: PLR2004 - HTTP
    reason = getattr(error.args[0] if error.args else None, "reason", None)
    never_sent = isinstance(reason, NewConnectionError | SSLError)
    return never_sent or isinstance(error, requests.ConnectTimeout)


def _note(held: _Held, answer: _Answer) -> None:
    if answer.trouble:
        _log.warning("oidc_ask_failed", error=answer.trouble)
    if not answer.tokens:
        if answer.is_token_safe and answer.no is None:
            held.change(is_unsure=held.row.is_unsure)
        return
    fresh = answer.tokens.get("refresh_token") or held.refresh
    columns: dict[str, Any] = {"refresh": seal(str(fresh)), "is_unsure": False}
    if not answer.trouble:
        columns |= {"until": datetime.fromtimestamp(answer.until, UTC), "said": ""}
    held.change(**columns)


def _act(answers: list[tuple[_Held, _Answer]]) -> None:
    """Do what the answers mean. What goes wrong for one person keeps nobody else's from him."""
    noes = sum(1 for _held, answer in answers if answer.no is not None)
    lost = noes >= TOO_MANY and noes * 2 > len(answers)
    if lost:
        _log.error("oidc_refuses_everybody", refused=noes, asked=len(answers))
    for held, answer in answers:
        try:
            if answer.no is None:
                if answer.groups is not None and held.change(groups_at=now()):
                    hooks.sync_groups(held.row.user, answer.groups)
            elif lost:
                held.change(is_unsure=held.row.is_unsure)
            else:
                _refuse(held, answer.no)
        except Exception:  # noqa: BLE001 - logged
            _log.exception("oidc_answer_failed", user=str(held.row.user.uid))


@transaction.atomic
def _refuse(held: _Held, no: Refused) -> None:
    # Sessions are over in any case, at the latest when their own time is.
    if not held.change(until=_PAST, is_unsure=held.row.is_unsure):
        return
    said = _words(no)
    if no.error != "invalid_grant":  # it wants to see him; he is not gone
        _log.info("oidc_wants_to_see", error=no.error)
    elif held.row.is_unsure:
        held.change(refresh="", refuse_at=now() + WARNED_FOR, said=said)
        user_warn(user=held.row.user)
    else:
        user_refuse(user=held.row.user, said=said)


def _words(no: Refused) -> str:
    words = f"{no.error}: {no.description}" if no.description else no.error
    return "".join(c if c.isprintable() else " " for c in words)[:200]
