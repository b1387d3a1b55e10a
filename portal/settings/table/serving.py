"""Settings of the portal itself: places, keys, addresses, TLS, the gate, the database."""

from portal.settings.kinds import (
    DERIVED,
    Setting,
    address,
    addresses,
    anything,
    choice,
    host,
    hosts,
    key,
    keys,
    origins,
    path,
    port,
    service,
    token,
    whole,
    words,
    yes_or_no,
)

DATABASES = ("postgres", "postgresql", "psql", "pgsql", "sqlite")
BROKERS = ("redis", "rediss", "unix")

GROUPS: dict[str, tuple[Setting, ...]] = {
    "Places and keys": (
        Setting(
            "VAR",
            path(),
            DERIVED,
            "everything that Berth writes: database, logs, secrets, homes",
            otherwise="`var/`",
        ),
        Setting(
            "SECRET_KEY",
            key(20),
            "",
            "signs sessions and derives launch secrets",
            otherwise="generated",
            secret=True,
        ),
        Setting(
            "SECRET_KEY_FALLBACKS",
            words("keys"),
            [],
            "older keys, comma-separated, still accepted",
            secret=True,
        ),
        Setting(
            "CREDENTIAL_KEYS",
            keys(20),
            [],
            "keys that seal stored credentials and variables of work: the first seals, all open",
            otherwise="generated",
            secret=True,
        ),
        Setting(
            "ADMIN_PASSWORD",
            anything(),
            "",
            "password of the first administrator on an empty database",
            otherwise="made and shown once",
            secret=True,
            of="migrate",
        ),
        Setting(
            "STATIC_DIR",
            path(),
            DERIVED,
            "files collected for browsers; part of the image",
            otherwise="in `BERTH_VAR`",
        ),
    ),
    "Addresses": (
        Setting(
            "BIND",
            host(),
            "127.0.0.1",
            "address of the portal; another one needs TLS and a notebook domain, or "
            "`--insecure-http`",
        ),
        Setting(
            "PORT",
            port(),
            8000,
            "the portal; the seven ports below that say `port + n` follow it unless set",
        ),
        Setting(
            "CONNECTIONS_PER_ADDRESS",
            whole(1),
            4000,
            "connections that one address (of IPv6 one /64 network) may hold to the portal, the"
            " gate or the notebook proxy each; more where many people come through one NAT. Not"
            " looked at with `BERTH_BEHIND_TLS_PROXY` or `BERTH_TRUST_FORWARDED_FOR`, where all"
            " come from the proxy in front",
        ),
        Setting("PROXY_PORT", port(), DERIVED, "the proxy to workspaces", otherwise="port + 1"),
        Setting(
            "INTERNAL_PORT",
            port(),
            DERIVED,
            "the listener for workloads (`/hub/api` only)",
            otherwise="port + 2",
        ),
        Setting("PROXY_API_PORT", port(), DERIVED, "the proxy's own API", otherwise="port + 3"),
        Setting(
            "PUBLIC_URL",
            address("http", "https", origin=True),
            DERIVED,
            "the portal as browsers see it; `https://` switches secure cookies on",
            otherwise="`http://localhost:<port>`",
        ),
        Setting(
            "ALLOWED_HOSTS",
            hosts(),
            ["localhost", "127.0.0.1", "[::1]"],
            "host names the portal answers to, besides those of `BERTH_PUBLIC_URL` and "
            "`BERTH_INTERNAL_URL`",
            otherwise="`localhost,127.0.0.1,[::1]`; none with `berth-server`",
        ),
        Setting("CSRF_TRUSTED_ORIGINS", origins(), [], "further origins whose forms are accepted"),
        Setting(
            "INTERNAL_URL",
            address("https", "http"),
            DERIVED,
            "how workloads reach `/hub/api`",
            otherwise="`http://127.0.0.1:<internal port>`",
        ),
        Setting(
            "INTERNAL_BIND",
            host(),
            "127.0.0.1",
            "address of the internal listeners: with `make run` that for workloads listens there "
            "besides loopback, for [pods of a cluster](runbook/clusters.md#example-the-portal-on-"
            "one-machine-work-on-a-cluster); in containers `0.0.0.0`",
        ),
        Setting(
            "PROXY_API_URLS",
            addresses(),
            DERIVED,
            "APIs of all proxies, comma-separated; each gets every route",
            otherwise="this machine's proxy",
        ),
        Setting(
            "PROXY_TOKEN", token(), "", "key to the proxy's API", otherwise="generated", secret=True
        ),
        Setting(
            "NOTEBOOK_ROUTING",
            choice("host", "path"),
            "host",
            "`host`: one host per workspace; `path`: one other host, a path per workspace",
        ),
        Setting(
            "NOTEBOOK_DOMAIN",
            host(),
            "nb.localhost",
            "domain below which workspaces have their hosts",
        ),
        Setting(
            "NOTEBOOK_SCHEME", choice("http", "https"), "http", "scheme of workspace addresses"
        ),
        Setting(
            "NOTEBOOK_PORT",
            port(),
            DERIVED,
            "port of workspace addresses as browsers see it",
            otherwise="proxy port",
        ),
        Setting(
            "NOTEBOOK_PATH_HOST",
            host(),
            "127.0.0.1",
            "the other host with path routing; never the portal's",
        ),
    ),
    "TLS": (
        Setting(
            "TLS_CERT",
            path(),
            "",
            "certificate file: Berth and the notebook proxy answer by TLS themselves",
            otherwise="none",
        ),
        Setting("TLS_KEY", path(), "", "its key file", otherwise="none"),
        Setting(
            "BEHIND_TLS_PROXY",
            yes_or_no(),
            False,
            "a proxy of yours ends TLS in front: believe its `X-Forwarded-Proto` and `-For`",
        ),
        Setting(
            "TRUST_FORWARDED_FOR",
            yes_or_no(),
            False,
            "a proxy in front writes `X-Forwarded-For`; its last entry is the caller",
        ),
        Setting(
            "SSL_REDIRECT", yes_or_no(), True, "redirect plain HTTP", otherwise="yes with https"
        ),
        Setting(
            "HSTS_SECONDS",
            whole(0, unit="seconds"),
            31536000,
            "Strict-Transport-Security",
            otherwise="a year with https",
        ),
    ),
    "The gate: terminals, logs, files, SSH": (
        Setting(
            "GATE_PORT",
            port(),
            DERIVED,
            "the gate: terminal, logs and files of work on clusters (`/gate/`)",
            otherwise="port + 4",
        ),
        Setting("SSH_PORT", port(0), DERIVED, "SSH to workspaces; 0: none", otherwise="port + 5"),
        Setting(
            "SSH_CONNECTIONS_PER_USER",
            whole(1),
            32,
            "SSH connections that one person may hold in one gate",
        ),
        Setting(
            "GATE_INTERNAL_PORT",
            port(),
            DERIVED,
            "the gate's listener for the portal's other processes",
            otherwise="port + 6",
        ),
        Setting(
            "GATE_INTERNAL_BIND",
            host(),
            "127.0.0.1",
            "address of that listener; another one where processes run on several machines",
        ),
        Setting(
            "GATE_URL",
            address("http", "https", origin=True),
            DERIVED,
            "the gate as programs reach it with tokens, without `/gate/`; the portal's own address "
            "where one entrance serves both",
            otherwise="`BERTH_PUBLIC_URL` with the gate's port for the portal's; as it is where it "
            "names another port or none",
        ),
        Setting(
            "GATEWAY_PORT",
            port(),
            DERIVED,
            "the gateway: requests to endpoints (`/e/`)",
            otherwise="port + 7",
        ),
        Setting(
            "GATEWAY_URL",
            address("http", "https", origin=True),
            DERIVED,
            "the gateway as callers reach it, without `/e/`; the portal's own address where one "
            "entrance serves both",
            otherwise="`BERTH_PUBLIC_URL` with the gateway's port for the portal's; as it is where "
            "it names another port or none",
        ),
        Setting(
            "GATE_PAGES_URL",
            address("http", "https", origin=True),
            DERIVED,
            "the gate as pages lead browsers there: the portal's own address, or another host. "
            "Another port of the portal's host stops the start: cookies ignore ports",
            otherwise="`BERTH_GATE_URL`; where that is another port of the portal's host, the same "
            "port of `gate.<notebook domain>`, with path routing of `BERTH_NOTEBOOK_PATH_HOST`",
        ),
        Setting(
            "GATE_INTERNAL_URL",
            address("https", "http"),
            DERIVED,
            "how `web` asks the gate",
            otherwise="`http://127.0.0.1:<gate internal port>`",
        ),
        Setting(
            "GATE_TOKEN",
            token(),
            "",
            "key to the gate's internal listener",
            otherwise="generated",
            secret=True,
        ),
        Setting("GATE_STREAMS", whole(1), 4000, "streams open at one time, per gate process"),
        Setting("GATE_STREAMS_PER_USER", whole(1), 32, "the same, per person"),
        Setting(
            "GATE_IDLE_S",
            whole(1, unit="seconds"),
            14400,
            "a stream in which nothing moves for so long is ended",
        ),
        Setting(
            "SSH_HOST",
            host(),
            "",
            "name for SSH that pages and the command line show",
            otherwise="the portal's host",
        ),
        Setting(
            "SSH_HOST_KEY_FILE",
            path(),
            DERIVED,
            "the gate's SSH host key; made when it is missing",
            otherwise="in `BERTH_VAR`",
        ),
        Setting(
            "FILES_IDLE_MINUTES",
            whole(1, unit="minutes"),
            10,
            "minutes without use after which a file browser ends",
        ),
    ),
    "Data, health, logs": (
        Setting(
            "DATABASE_URL",
            service("an address like postgres://user:password@host.example/berth", *DATABASES),
            "",
            "`postgres://…` for more than one machine. Statements are prepared: a pooler in "
            "between (PgBouncer from 1.21 on, `max_prepared_statements`) must know that",
            secret=True,
        ),
        Setting(
            "REDIS_URL",
            service("an address like redis://:password@host.example:6379/0", *BROKERS),
            "",
            "broker, cache and event bus; give it a password when workspaces run on the "
            "machine it listens on, because every workspace can reach its port",
            secret=True,
        ),
        Setting(
            "DISK_FLOOR_MIB",
            whole(0, unit="MiB"),
            256,
            "with less room on the disk of `BERTH_VAR` the portal only reads: nothing new "
            "begins, nothing is uploaded into volumes on that disk, what runs goes on, and "
            "what makes room or keeps somebody out works; 0: not looked at",
        ),
        Setting(
            "DISK_RESERVE_MIB",
            whole(0, unit="MiB"),
            64,
            "room that the portal holds in `BERTH_VAR/reserve` while its database is SQLite"
            " there, and gives back in pieces of 8 MiB when others filled the disk: signing in,"
            " stopping and deleting go on; 0: none",
        ),
        Setting(
            "HEALTH_PORT",
            port(0),
            0,
            "the worker answers `/livez` and `/readyz` there; in containers 8007",
            otherwise="none",
        ),
        Setting(
            "DRAIN_SECONDS",
            whole(0, unit="seconds"),
            0,
            "how long `web` still answers after SIGTERM, so that a load balancer can look away",
            of="web",
        ),
        Setting(
            "METRICS_TOKEN",
            token(),
            "",
            "`/metrics` of web and gate answer whoever sends it as a bearer token; empty: web"
            " answers its own machine only. On one machine it stands in"
            " `BERTH_VAR/secrets.json`, because workspaces reach these ports",
            otherwise="generated by `berth up`",
            secret=True,
        ),
        Setting(
            "LOG_LEVEL",
            choice("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
            "INFO",
            "how much is logged",
        ),
        Setting(
            "TEST_DATABASE_URL",
            service("an address like postgres://user:password@host.example/berth", *DATABASES),
            "",
            "tests only: the database they run on instead of SQLite",
            secret=True,
        ),
    ),
}
