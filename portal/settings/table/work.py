"""Settings of work (this machine, clusters, routes, volumes, loads, the way out) and of people."""

from portal.settings.kinds import (
    DERIVED,
    Setting,
    address,
    anything,
    choice,
    currency,
    dotted,
    host,
    hosts_and_ports,
    json_object,
    mail_address,
    matching,
    path,
    port,
    ports,
    ranges,
    sealing_key,
    sealing_keys,
    service_and_port,
    whole,
    words,
    yes_or_no,
)

GROUPS: dict[str, tuple[Setting, ...]] = {
    "Work on this machine": (
        Setting(
            "LOCAL_CLUSTER",
            yes_or_no(),
            True,
            "offer this machine for workspaces",
            otherwise="yes; no with `berth-server`, compose and the chart",
        ),
        Setting(
            "LOCAL_DRIVER",
            choice("local", "fake"),
            "local",
            "`fake` runs nothing: for demonstrations",
        ),
        Setting(
            "SIMULATED_GPUS",
            matching(
                "GPUs like 8xH100-80,4xA100-40", r"[1-9]\d{0,3}x[^,]+-\d+(,[1-9]\d{0,3}x[^,]+-\d+)*"
            ),
            "",
            "GPUs that a machine without any pretends to have, as number, name and GiB: to try how "
            "they are shared. Every page marks them, nothing can use them, and a machine with GPUs "
            "of its own refuses them",
            otherwise="none",
        ),
        Setting(
            "DEMO",
            yes_or_no(),
            False,
            "a demonstration (`make demo`): made-up people who work on simulated GPUs, in a "
            "database of its own",
        ),
        Setting(
            "SUPERVISOR_SOCKET",
            path(),
            DERIVED,
            "socket of the process supervisor",
            otherwise="in `BERTH_VAR`",
        ),
        Setting(
            "WORKLOADS_DIR",
            path(),
            DERIVED,
            "environments and logs of workspaces",
            otherwise="in `BERTH_VAR`",
        ),
        Setting("VOLUMES_DIR", path(), DERIVED, "homes", otherwise="in `BERTH_VAR`"),
        Setting(
            "ENVIRONMENTS_DIR",
            path(),
            DERIVED,
            "read-only JupyterLab environments",
            otherwise="in `BERTH_VAR`",
        ),
        Setting(
            "CPU_OVERCOMMIT",
            whole(1),
            4,
            "how many times the machine's CPUs may be asked for in all",
        ),
        Setting("MEMORY_OVERCOMMIT", whole(1), 1, "the same for its memory"),
        Setting(
            "QUEUE_PASSING_MINUTES",
            whole(0),
            60,
            "short work may pass what waits for more, where it is over within so many minutes of "
            "the moment that asked; 0: never",
        ),
        Setting(
            "RECLAIM_GRACE_SECONDS",
            whole(1),
            60,
            "how long work has to end that gives back borrowed GPUs, or is parked",
        ),
        Setting(
            "SMOKE_SECONDS",
            whole(5),
            60,
            "how long a smoke run of a job may take: who still runs then has passed",
        ),
        Setting(
            "PERFTEST_IMAGE",
            anything(),
            "",
            "what performance tests run on clusters where they name no image: one with Python, "
            "and for GPUs with PyTorch or nccl-tests",
        ),
        Setting(
            "CHECKPOINT_SECONDS",
            whole(1),
            300,
            "how often checkpoints of a running job are copied to the bucket that it names",
        ),
        Setting(
            "OUTPUT_DAYS",
            whole(0),
            7,
            "how long files stay in a volume after all that a run left was copied to its bucket",
        ),
        Setting(
            "CALLS_DAYS",
            whole(31),
            90,
            "how long is kept who called an endpoint in each minute; its page looks back 30 days",
        ),
        Setting(
            "RETURN_TICKET_DAYS",
            whole(0),
            14,
            "how long work that was parked goes ahead of newcomers when it asks for its GPUs again",
        ),
    ),
    "Clusters and routes": (
        Setting(
            "IN_CLUSTER",
            matching("a short name like berth", r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"),
            "",
            "key of the Kubernetes cluster that Berth itself runs in; it is used through the "
            "pod's service account",
            otherwise="none",
        ),
        Setting("IN_CLUSTER_NAME", anything(), "", "name that people see", otherwise="its key"),
        Setting(
            "IN_CLUSTER_OPTIONS",
            json_object(),
            {},
            "its options as JSON, as on the operators' page",
            otherwise="`{}`",
        ),
        Setting(
            "ALLOW_PRIVATE_CLUSTERS",
            yes_or_no(),
            False,
            "a cluster may be attached at an address of this machine itself (loopback); "
            "private ranges always may",
        ),
        Setting(
            "CLUSTER_PUBLIC_KEY",
            sealing_key(),
            "",
            "kubeconfigs of clusters are sealed to this key; every process needs it",
            otherwise="generated",
        ),
        Setting(
            "CLUSTER_PRIVATE_KEY",
            sealing_keys(),
            [],
            "opens them: only `worker` and `gate` need it; older ones after the first, "
            "comma-separated",
            otherwise="generated",
            secret=True,
            of="worker, gate",
        ),
        Setting(
            "ROUTER",
            choice("chp", "gateway", "fake"),
            "chp",
            "`gateway`: an HTTPRoute per workspace on a Gateway of the cluster "
            "(docs/dev/routes.md); `fake` routes nothing: for demonstrations",
        ),
        Setting(
            "GATEWAY",
            matching("namespace/name or namespace/name/listener", r"[^/\s]+(/[^/\s]+){1,2}"),
            "",
            "with `gateway`: `namespace/name` of the Gateway, or `namespace/name/listener`",
        ),
        Setting(
            "GATEWAY_CLUSTER",
            matching("the key of a cluster", r"[a-z0-9-]+"),
            "",
            "with `gateway`: key of the cluster that has it",
            otherwise="the one Berth runs in",
        ),
        Setting(
            "GATEWAY_PROXY",
            service_and_port(),
            "",
            "with `gateway`: `namespace/service:port` of the notebook proxy's Service there. "
            "WebSockets go through it, so that those of a revoked visitor are cut; empty: "
            "they are not",
        ),
        Setting(
            "AI_PLATFORM",
            json_object(),
            {},
            "what the words of AI Platform Training stand for here, as JSON: `accelerators` "
            '(`{"NVIDIA_TESLA_V100": "h100-80"}`), `machines` (`{"n1-standard-4": {"cpu": 2, '
            '"memory_gib": 8}}`), `runtimes` (`{"2.11": {"image": …}}` or `{"environment": …}`)',
            otherwise="`{}`: machine types as they are published, kinds of GPU by their names",
        ),
    ),
    "Volumes and loads": (
        Setting(
            "VOLUME_UNDO_DAYS",
            whole(0, unit="days"),
            7,
            "days in which a deleted volume can be brought back",
        ),
        Setting(
            "PACKAGE_MIB",
            whole(1, unit="MiB"),
            64,
            "how large a folder of code may be, packed, that is sent to be run as a job",
        ),
        Setting(
            "LOADS_PER_PROJECT",
            whole(1),
            4,
            "loads of one project that run at once; the others wait in its line",
        ),
        Setting(
            "LOAD_CPU_MILLI",
            whole(1, unit="thousandths of a CPU"),
            1000,
            "what a load asks of a machine and takes of its project's limits",
        ),
        Setting("LOAD_MEMORY_MIB", whole(1, unit="MiB"), 512, "the same, of memory"),
        Setting(
            "LOAD_RETRIES",
            whole(0),
            5,
            "times that a load which was killed, or whose machine went away, goes on by "
            "itself; 0: never",
        ),
        Setting(
            "LOAD_SCHEDULE_MINUTES",
            whole(1, unit="minutes"),
            5,
            "shortest time between two scheduled runs of one load",
        ),
        Setting(
            "CURRENCY",
            currency(),
            "USD",
            "currency of every price, by its code of ISO 4217 (`EUR`, `JPY` …); prices are "
            "not converted when it changes",
        ),
    ),
    "Addresses that users write": (
        Setting(
            "OUTBOUND_ALLOW",
            ranges(),
            [],
            "private ranges that addresses written by users may lead to: `10.1.0.0/16`, or "
            "one port of them: `10.1.2.3:5000`, `[fd00::/8]:443`",
        ),
        Setting(
            "OUTBOUND_PORTS",
            ports(),
            ["80", "443", "5000", "8443"],
            "ports that such addresses may name",
        ),
        Setting(
            "OUTBOUND_CA_FILE",
            path(),
            "",
            "certificates of authorities of your own, believed besides the public ones by all "
            "that goes out: single sign-on, mail, stores, registries, loads, and jobs that ask an "
            "endpoint",
        ),
        Setting(
            "IMAGE_SIGN_INS_FILE",
            path(),
            "",
            "sign-ins of registries (`config.json` as Docker writes it) that every project's work "
            "on clusters may pull images with: where yours for notebooks and loads are private",
        ),
        Setting(
            "INSECURE_STORES",
            hosts_and_ports(),
            [],
            "object stores and namenodes (`host:port`) that may be spoken to by plain HTTP; "
            "all others must speak TLS. The datanodes of such a namenode may then too, at "
            "addresses that are open to loads: `BERTH_OUTBOUND_ALLOW` `10.1.0.0/16:9864`",
        ),
        Setting(
            "GCS_ENDPOINT",
            address("http", "https"),
            "",
            "in place of Google's own address for Cloud Storage; for trials",
        ),
        Setting(
            "GCS_TOKEN_URI",
            address("http", "https"),
            "",
            "in place of Google's own address for tokens; for trials",
        ),
        Setting(
            "INSECURE_REGISTRIES",
            hosts_and_ports(),
            [],
            "registries (`host:port`) that are asked by plain HTTP, wherever they are",
        ),
        Setting(
            "IMAGE_MAX_GIB",
            whole(0, unit="GiB"),
            60,
            "larger images (compressed) are refused; 0: no limit",
        ),
    ),
}


SIGN_IN: dict[str, tuple[Setting, ...]] = {
    "People": (
        Setting("SIGNUP_OPEN", yes_or_no(), False, "anybody may register"),
        Setting("PROJECT_CREATION", choice("anyone", "operators"), "anyone", "or `operators`"),
        Setting("API_RATE", whole(1), 1200, "API requests a minute, per person and web process"),
        Setting(
            "API_CONCURRENCY", whole(1), 64, "API requests at one time, per person and web process"
        ),
    ),
    "Single sign-on": (
        Setting(
            "OIDC_NAME",
            anything(),
            "Single sign-on",
            "label of the button",
            otherwise="Single sign-on",
        ),
        Setting(
            "OIDC_ISSUER",
            address("http", "https"),
            "",
            "issuer address of the OpenID Connect provider",
            otherwise="none",
        ),
        Setting("OIDC_CLIENT_ID", anything(), "", "client id there"),
        Setting("OIDC_CLIENT_SECRET", anything(), "", "client secret there", secret=True),
        Setting(
            "OIDC_GROUPS_CLAIM",
            anything(),
            "groups",
            "claim of id_token or userinfo that lists a person's groups; without it somebody is in"
            " none, and loses the roles that groups gave. Empty: this provider never sends groups,"
            " and roles stay as they are",
        ),
        Setting(
            "OIDC_SCOPES",
            words("scopes"),
            ["openid", "profile", "email"],
            "scopes asked for; add `offline_access` where refresh tokens need it",
        ),
        Setting(
            "OIDC_LINK_VERIFIED_EMAIL",
            yes_or_no(),
            True,
            "a verified address links to the account that verified the same",
        ),
        Setting(
            "OIDC_SESSION_MINUTES",
            whole(0, unit="minutes"),
            0,
            "0: the session ends with the provider's; else after this time",
        ),
        Setting(
            "OIDC_REFUSED",
            choice("session", "person"),
            "session",
            "what ends when the provider refuses to renew somebody's token (`invalid_grant`):"
            " `session`, or `person`: API tokens, SSH keys, kubeconfigs and running work as "
            "well, as if he were disabled, until he signs in again. Choose `person` where "
            "refresh tokens outlive the session at the provider (most need `offline_access` "
            "in `BERTH_OIDC_SCOPES`); holds for who signs in from then on",
        ),
        Setting(
            "OIDC_ASK_SECONDS",
            whole(1, unit="seconds"),
            40,
            "with `person`: how often the provider is asked about each person; a removed one "
            "is out ten seconds later than this at most, where the provider answers",
        ),
    ),
    "Mail": (
        Setting(
            "EMAIL_BACKEND",
            dotted(),
            "django.core.mail.backends.console.EmailBackend",
            "Django's mail backend",
            otherwise="console",
        ),
        Setting("EMAIL_HOST", host(), "localhost", "mail server"),
        Setting("EMAIL_PORT", port(), 25, "its port"),
        Setting("EMAIL_HOST_USER", anything(), "", "its user"),
        Setting("EMAIL_HOST_PASSWORD", anything(), "", "its password", secret=True),
        Setting("EMAIL_USE_TLS", yes_or_no(), False, "STARTTLS"),
        Setting("FROM_EMAIL", mail_address(), "berth@localhost", "sender of mail"),
    ),
}
