"""Every setting: its kind, its default and what it means, in the order of docs/settings.md.

The settings modules read them from here, ``berth up`` and ``berth-server`` say what is wrong by
it, and docs/settings.md is written from it (``make settings``).
"""

from portal.settings.kinds import DERIVED, Setting
from portal.settings.table import serving, work

__all__ = ["DERIVED", "ELSEWHERE", "GROUPS", "TABLE", "Setting"]

GROUPS: dict[str, tuple[Setting, ...]] = {**serving.GROUPS, **work.GROUPS, **work.SIGN_IN}
TABLE: dict[str, Setting] = {one.name: one for group in GROUPS.values() for one in group}

# Names that begin like settings and are none: whoever else reads them.
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "the command line": ("BERTH_CONFIG", "BERTH_PROJECT", "BERTH_TOKEN", "BERTH_URL"),
    "work, which is given them": (
        *("BERTH_FILES_TOKEN", "BERTH_REPORT_TOKEN", "BERTH_SECRETS", "BERTH_SSH_CONFIG"),
        *("BERTH_HOSTS", "BERTH_REPLICA", "BERTH_ROLE", "BERTH_ROLE_INDEX", "BERTH_VOLUMES"),
        *("BERTH_WORKLOAD", "BERTH_SMOKE_RUN", "BERTH_REPORT_URL"),
        *("BERTH_EVENTS", "BERTH_NOTICE_FILE", "BERTH_CHECKPOINTS", "BERTH_CHECKPOINT_LATEST"),
        *(
            "BERTH_CODE",
            "BERTH_CODE_TOKEN",
            "BERTH_CODE_URL",
            "BERTH_OUTPUT",
            "BERTH_KEY",
            "BERTH_ENDPOINT_KEY",
        ),
    ),
    "docker-compose.yml": (
        *("BERTH_POSTGRES_IMAGE", "BERTH_PROXY_IMAGE", "BERTH_PUBLISH"),
        *("BERTH_PUBLISH_INTERNAL", "BERTH_REDIS_IMAGE", "BERTH_SERVER_IMAGE"),
    ),
    "the chart's Secret": ("BERTH_INSTALLATION", "BERTH_SSH_HOST_KEY"),
    "the start on one machine": (
        *("BERTH_DATA_HERE", "BERTH_NODE", "BERTH_ROOT_ONLY", "BERTH_SUPERVISED_FD"),
    ),
    "tests and demonstrations": (
        *("BERTH_AUDIT_GUARD", "BERTH_EXAMPLES", "BERTH_FAKE_WORLD"),
        *("BERTH_KILLPOINT", "BERTH_MAIN", "BERTH_MEDDLED", "BERTH_UPDATE_GOLDEN"),
        *("BERTH_UPDATE_QUERY_COUNTS", "BERTH_TEST_CLUSTER", "BERTH_TEST_CLUSTER_IMAGE"),
        *("BERTH_TEST_CLUSTER_WORD", "BERTH_TEST_DEEP", "BERTH_TEST_ENVS"),
        *("BERTH_TEST_LIMIT_MIN", "BERTH_TEST_MANY_FILES", "BERTH_TEST_NO_BUS"),
        *("BERTH_TEST_POSTGRES", "BERTH_TEST_REDIS"),
    ),
    "the tests' own cluster": (
        *("BERTH_CLUSTER_CACHE", "BERTH_CLUSTER_DIR", "BERTH_CLUSTER_VOLUMES"),
    ),
    "benchmarks": (
        *("BERTH_BENCH_SMALL", "BERTH_FAIR_LAUNCHES", "BERTH_FAIR_LOADS", "BERTH_FAIR_ROUNDS"),
        *("BERTH_GUARANTEES_ASKED", "BERTH_REPLAY_CSV", "BERTH_REPLAY_JOBS", "BERTH_REPLAY_TIMES"),
        *("BERTH_OUTAGE_CHANGED", "BERTH_OUTAGE_ROWS", "BERTH_OUTAGE_SECONDS"),
        *("BERTH_OUTAGE_WITHIN_S", "BERTH_STORM_LAUNCHES", "BERTH_STORM_PROJECTS"),
        *("BERTH_STORM_SECONDS", "BERTH_STORM_SEED", "BERTH_WATCH_PODS", "BERTH_WATCH_WITHIN_S"),
    ),
}
