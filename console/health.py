"""Checks of what Berth stands on; each is bounded and none raises."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils.functional import Promise
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from clusters.models import Cluster
from common import disk
from common.clock import now
from common.templatetags.berth import mib
from console.words import answer_words, duty_words
from notifications.selectors import is_mail_set_up, mail_trouble
from runtime import leases
from runtime.models import Installation
from serving.gateway.tallies import live_gateways
from serving.models import Endpoint

BOUND_S = 2.0
STALE = timedelta(minutes=3)


@dataclass(frozen=True)
class Check:
    """One answer. ``vital``: without it no page can be served."""

    name: str
    label: str | Promise
    ok: bool
    message: str
    vital: bool
    took_ms: float


class Down(Exception):  # noqa: N818 - an answer, not an error
    """The checked thing does not work; the text says what to do."""


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()
    return connection.vendor


_migrations_done = False


def _migrations() -> str:
    global _migrations_done  # noqa: PLW0603 - once true it stays true for this process
    if _migrations_done:
        return _t("all applied")
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        text = ngettext(
            "%(n)d migration waits: run “manage.py migrate”.",
            "%(n)d migrations wait: run “manage.py migrate”.",
            len(plan),
        )
        raise Down(text % {"n": len(plan)})
    _migrations_done = True
    return _t("all applied")


def _broker() -> str:
    if settings.BERTH_REDIS_URL:
        import redis

        client = redis.Redis.from_url(
            settings.BERTH_REDIS_URL, socket_timeout=BOUND_S, socket_connect_timeout=BOUND_S
        )
        try:
            client.ping()
        finally:
            client.close()
        return "Redis"
    folder = Path(
        settings.CELERY_BROKER_TRANSPORT_OPTIONS.get("data_folder_in", settings.BERTH_VAR)
    )
    if not folder.is_dir():
        raise Down(_t("The folder %(folder)s is missing.") % {"folder": folder})
    if not os.access(folder, os.W_OK):
        raise Down(_t("The folder %(folder)s can't be written.") % {"folder": folder})
    return _t("folder")


def _proxy() -> str:
    from clusters.registry import router

    pool = ThreadPoolExecutor(1, thread_name_prefix="health")
    try:
        return _t("run %(epoch)s") % {"epoch": pool.submit(router().epoch).result(BOUND_S)[:12]}
    except FutureTimeoutError as error:
        raise Down(_t("The proxy does not answer within 2 s.")) from error
    finally:
        pool.shutdown(wait=False)


def _machines() -> str:
    """Read what the engine last saw: a page never calls a machine."""
    rows = list(Cluster.objects.filter(enabled=True))
    if not rows:
        raise Down(_t("There is no machine to run work on."))
    for row in rows:
        if not row.reachable:
            raise Down(f"{row.name}: {answer_words(row.message) or _t('does not answer')}")
        if row.checked_at is None or now() - row.checked_at > STALE:
            raise Down(
                _t("%(name)s was not looked at for a while; is the worker running?")
                % {"name": row.name}
            )
    return ", ".join(row.name for row in rows)


def _worker() -> str:
    """Whether somebody does the periodic work: one that hangs or is stopped says nothing."""
    count = len(leases.alive())
    if not count:
        raise Down(_t("No worker has made a turn for %(n)d s.") % {"n": leases.ALIVE_S})
    if late := [row for row in leases.duties() if leases.is_late(row)]:
        names = ", ".join(duty_words(row.name) for row in late[:3])
        raise Down(_t("Late: %(duties)s") % {"duties": names})
    return ngettext("%(n)d worker", "%(n)d workers", count) % {"n": count}


def _gateway() -> str:
    """Whether endpoints can be called, where there are any."""
    if not Endpoint.objects.filter(deleted_at=None).exists():
        return _t("not needed: there is no endpoint")
    count = live_gateways(now()).count()
    if not count:
        raise Down(_t("No gateway has told anything for 30 s: endpoints answer nobody."))
    return ngettext("%(n)d gateway", "%(n)d gateways", count) % {"n": count}


def _secrets() -> str:
    from credentials import rekey

    if count := rekey.locked():
        text = ngettext(
            "%(n)d secret was sealed with a key that BERTH_CREDENTIAL_KEYS lacks.",
            "%(n)d secrets were sealed with a key that BERTH_CREDENTIAL_KEYS lacks.",
            count,
        )
        raise Down(text % {"n": count})
    return _t("all can be opened")


def _orphans() -> str:
    own = Installation.objects.first()
    if own is None or not own.held_why or (own.held_why == own.Hold.QUIET and not own.unknown):
        return _t("what has no row is removed")
    ours = sum(one.get("whose") == "own" for one in own.unknown)
    raise Down(
        _t(
            "Since %(since)s nothing is removed for being unknown to the database, which may be"
            " older than the work (%(n)d unknown). See “berth orphans” on the portal's machine."
        )
        % {"since": f"{own.held_since:%Y-%m-%d %H:%M} UTC", "n": ours}
    )


def _mail() -> str:
    if not is_mail_set_up():
        return _t("Not set up: invitations and notices are only in the portal (BERTH_EMAIL_…).")
    if error := mail_trouble():
        raise Down(_t("The last mail was not sent: %(error)s") % {"error": error})
    return str(settings.EMAIL_HOST)


def _disk() -> str:
    free = disk.free_mib()
    if disk.is_short():
        raise Down(
            _t(
                "%(free)d MiB are left on the portal's disk: nothing new begins. Make room; "
                "the page System shows who holds most."
            )
            % {"free": free}
        )
    return "" if free is None else _t("%(free)s free") % {"free": mib(free)}


CHECKS: tuple[tuple[str, str | Promise, Callable[[], str], bool], ...] = (
    ("database", _("Database"), _database, True),
    ("migrations", _("Migrations"), _migrations, True),
    ("broker", _("Broker"), _broker, False),
    ("proxy", _("Notebook proxy"), _proxy, False),
    ("worker", _("Worker"), _worker, False),
    ("gateway", _("Gateway to endpoints"), _gateway, False),
    ("machines", _("Machines"), _machines, False),
    ("secrets", _("Stored credentials"), _secrets, False),
    ("orphans", _("Unknown work"), _orphans, False),
    ("mail", _("Mail"), _mail, False),
    ("disk", _("Disk of the portal"), _disk, False),
)


def check_all() -> list[Check]:
    """Run every check; each is bounded and none raises."""
    found = []
    for name, label, check, vital in CHECKS:
        started = time.perf_counter()
        try:
            ok, message = True, check()
        except Down as down:
            ok, message = False, str(down)
        except Exception as error:  # noqa: BLE001 - whatever it is, the answer is "down"
            ok, message = False, f"{type(error).__name__}: {error}"[:200]
        took = (time.perf_counter() - started) * 1000
        found.append(Check(name, label, ok, message, vital, round(took, 1)))
        if not ok and name == "database":
            break
    return found
