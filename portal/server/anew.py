"""``berth anew``: go on with what is here, where the rest is lost for good."""

import json
import os
from datetime import UTC, datetime

from portal.server.paths import Paths, Refusal, private_umask, running

KEY = "BERTH_SECRET_KEY"

LEAVES = """Berth goes on with what is here, and makes anew what is missing:

  secrets    {secrets}
             What lost keys sealed stays closed: stored credentials, kubeconfigs of clusters,
             second factors. Everybody signs in again.
  database   as it is. Where it is missing or empty, a new one with a new administrator.
  the rest   Volumes, homes and what runs stay as they are. Work that the database does not know
             is left, also on clusters: nobody ends it but you.

A backup is better: `berth restore FILE`."""


def anew(*, is_sure: bool) -> int:
    private_umask()
    places = Paths.from_environment()
    if running(places):
        message = "Berth runs; end it first with `berth down`."
        raise Refusal(message)
    there = has_key(places)
    if not is_sure:
        words = str(places.secrets) if there else f"new ones ({places.secrets} has none)"
        print(LEAVES.format(secrets=words))
        message = "Nothing was changed. `berth anew --yes` does it."
        raise Refusal(message)
    places.prepare()
    if not there and places.secrets.exists():  # kept: somebody may yet read something in it
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        places.secrets.rename(places.secrets.with_name(f"secrets-unreadable-{stamp}.json"))
    places.ensure_secrets()  # before the settings are read
    from portal.server.preflight import prepare_database, setup

    setup()
    prepare_database(anew=True)
    print(f"{places.var} is one installation again. Start Berth.")
    return 0


def has_key(places: Paths) -> bool:
    if {KEY, f"{KEY}_FILE"} & os.environ.keys():
        return True
    try:
        return bool(json.loads(places.secrets.read_text()).get(KEY))
    except (OSError, ValueError, AttributeError):
        return False
