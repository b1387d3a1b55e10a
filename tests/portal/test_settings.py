"""A wrong setting stops the start with a sentence: one for each, all at once."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as now

from common.sealing import new_pair
from portal.settings import env
from portal.settings.table import TABLE
from tests.support.portal import ROOT

READERS: dict[type, Callable[[str], Any]] = {
    str: lambda name: env.text(name, ""),
    int: lambda name: env.number(name, 0),
    bool: env.flag,
    list: lambda name: env.words(name, []),
    dict: env.mapping,
}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """What is said of one value; "" where it is right."""

    def ask(name: str, value: str) -> str:
        wrong: dict[str, str] = {}
        monkeypatch.setattr(env, "wrong", wrong)
        monkeypatch.setenv(f"BERTH_{name}", value)
        READERS[TABLE[name].kind.holds](name)
        return wrong.get(name, "")

    return ask


WRONG = [
    ("API_RATE", "0"),
    ("BIND", "not a host"),
    ("CLUSTER_PUBLIC_KEY", "no key"),
    ("CPU_OVERCOMMIT", "-1"),
    ("CREDENTIAL_KEYS", "garbage"),
    ("CSRF_TRUSTED_ORIGINS", "berth.example.org"),
    ("CURRENCY", "dollars"),
    ("DATABASE_URL", "mysql://db/berth"),
    ("DISK_FLOOR_MIB", "1.5"),
    ("EMAIL_BACKEND", "smtp"),
    ("EMAIL_PORT", "70000"),
    ("EMAIL_USE_TLS", "maybe"),
    ("FROM_EMAIL", "berth"),
    ("GATEWAY", "berth"),
    ("GATEWAY_PROXY", "berth/proxy"),
    ("GATEWAY_PROXY", "berth/proxy:70000"),
    ("GATE_TOKEN", "two words"),
    ("GCS_ENDPOINT", "storage"),
    ("HSTS_SECONDS", "-1"),
    ("INSECURE_REGISTRIES", "http://x:5000"),
    ("INSECURE_STORES", "a:b"),
    ("IN_CLUSTER", "Berth!"),
    ("IN_CLUSTER_OPTIONS", "[]"),
    ("IN_CLUSTER_OPTIONS", "{"),
    ("LOCAL_DRIVER", "x"),
    ("LOG_LEVEL", "loud"),
    ("NOTEBOOK_DOMAIN", "https://nb.example.org"),
    ("NOTEBOOK_ROUTING", "hosts"),
    ("NOTEBOOK_SCHEME", "ftp"),
    ("OIDC_ASK_SECONDS", "0"),
    ("OIDC_ISSUER", "foo"),
    ("OIDC_REFUSED", "nobody"),
    ("OUTBOUND_ALLOW", "10.0.0.1/8"),
    ("OUTBOUND_ALLOW", "ten"),
    ("OUTBOUND_PORTS", "https"),
    ("PORT", "tcp://10.0.0.1:8000"),
    ("PROJECT_CREATION", "everyone"),
    ("PROXY_API_URLS", "proxy:8003"),
    ("PUBLIC_URL", "foo"),
    ("PUBLIC_URL", "https://berth.example.org/berth"),
    ("REDIS_URL", "localhost"),
    ("ROUTER", "x"),
    ("SECRET_KEY", "short"),
    ("SIGNUP_OPEN", "si"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_that_is_not_of_its_kind_is_a_sentence(said: Any, name: str, value: str) -> None:
    sentence = said(name, value)
    assert sentence.startswith(f"BERTH_{name} must be ")
    assert sentence.endswith(".")
    assert (value in sentence) != TABLE[name].secret


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BIND", "::1"),
        ("BIND", "0.0.0.0"),
        pytest.param(
            *("CLUSTER_PRIVATE_KEY", ",".join(pair[1] for pair in (new_pair(), new_pair()))),
            id="two keys that were made now",
        ),
        ("CREDENTIAL_KEYS", "k" * 40 + ",old"),
        ("CSRF_TRUSTED_ORIGINS", "https://*.example.org,http://localhost:9000"),
        ("CURRENCY", "JPY"),
        ("DATABASE_URL", "postgres://%2Fvar%2Frun/berth"),
        ("DATABASE_URL", "sqlite:////tmp/x.sqlite3"),
        ("EMAIL_USE_TLS", "ON"),
        ("FROM_EMAIL", "Berth <berth@example.org>"),
        ("GATEWAY", "berth/main/https"),
        ("IN_CLUSTER_OPTIONS", '{"internet": false}'),
        ("OIDC_ISSUER", "https://idp.example.org/realms/berth/"),
        ("OUTBOUND_ALLOW", "10.1.0.0/16, [fd00::/8]:443,10.2.0.5:8500"),
        ("OUTBOUND_PORTS", ""),
        ("PUBLIC_URL", "http://[::1]:8000/"),
        ("REDIS_URL", "redis://:a%20password@redis:6379/0"),
        ("REDIS_URL", "unix:///run/redis.sock"),
        ("ROUTER", ""),
        ("SSH_PORT", "0"),
    ],
)
def test_a_value_that_is_right_is_taken(said: Any, name: str, value: str) -> None:
    assert said(name, value) == ""


def test_a_name_that_nobody_reads_is_refused_with_the_nearest_one() -> None:
    [near] = env.unknown({"BERTH_OIDC_ISSUR": "x", "BERTH_TOKEN": "of the command line"})
    assert near == "BERTH_OIDC_ISSUR is no setting; did you mean BERTH_OIDC_ISSUER?"
    assert env.unknown({"BERTH_SECRET_KEY_FILE": "/x", "BERTH_TLS_CERT": "/x"}) == []


PAIR = new_pair()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, ""),
        ({"BERTH_CLUSTER_PRIVATE_KEY": [PAIR[1]], "BERTH_CLUSTER_PUBLIC_KEY": PAIR[0]}, ""),
        (
            {"BERTH_CLUSTER_PRIVATE_KEY": [PAIR[1]], "BERTH_CLUSTER_PUBLIC_KEY": new_pair()[0]},
            "is not that of the first",
        ),
        (
            {"BERTH_GATE_PAGES_URL": "http://localhost:8004"},
            "another port of the portal's own host",
        ),
        ({"BERTH_GATE_PAGES_URL": "http://localhost:8000"}, ""),
        (
            {"BERTH_NOTEBOOK_ROUTING": "path", "BERTH_NOTEBOOK_PATH_HOST": "localhost"},
            "NOTEBOOK_PATH_HOST",
        ),
        ({"BERTH_NOTEBOOK_DOMAIN": "localhost"}, "lies in BERTH_NOTEBOOK_DOMAIN"),
        (
            {
                "BERTH_PUBLIC_URL": "https://berth.example.org",
                "BERTH_GATE_URL": "https://berth.example.org",
                "BERTH_NOTEBOOK_DOMAIN": "example.org",
            },
            "lies in BERTH_NOTEBOOK_DOMAIN",
        ),
        ({"BERTH_OIDC_ISSUER": "https://idp.example.org"}, "BERTH_OIDC_CLIENT_ID belong together"),
        (
            {"BERTH_ROUTER": "gateway", "BERTH_IN_CLUSTER": "here"},
            "BERTH_ROUTER=gateway needs BERTH_GATEWAY:",
        ),
        (
            {"BERTH_ROUTER": "gateway", "BERTH_GATEWAY": "a/b"},
            "BERTH_ROUTER=gateway needs BERTH_GATEWAY_CLUSTER",
        ),
        ({"BERTH_TLS_CERT": "/etc/cert.pem"}, "BERTH_TLS_KEY belong together"),
    ],
)
def test_settings_that_contradict_each_other_are_a_sentence(
    settings: Any, changes: dict[str, Any], word: str
) -> None:
    for name, value in changes.items():
        setattr(settings, name, value)
    values = {name: getattr(settings, name) for name in dir(now) if name.startswith("BERTH_")}
    found = [one for check in env.TOGETHER.values() for one in check(values)]
    assert len(found) == bool(word)
    assert all(word in one for one in found)


def test_everything_that_is_wrong_is_said_at_once_and_no_secret_with_it(tmp_path: Any) -> None:
    wrong = {f"BERTH_{name}": value for name, value in WRONG}
    done = subprocess.run(
        [sys.executable, "-m", "portal.server", "serve", "check"],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "BERTH_VAR": str(tmp_path),
            "BERTH_OIDC_ISSUR": "x",
            **wrong,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert all(f"\n  {name} must be " in done.stderr for name in wrong), done.stderr
    assert "did you mean BERTH_OIDC_ISSUER?" in done.stderr
    assert not [v for k, v in WRONG if TABLE[k].secret and f"'{v}'" in done.stderr]
