"""Jobs of a running portal: made as rows, looked at as the API would show them."""

from __future__ import annotations

import time
from typing import Any

from tests.support.portal import Portal

WITHIN_S = 240.0
OVER = ("succeeded", "failed", "cancelled")

_MAKE = """
from accounts.models import User
from common.clock import now
from jobs.models import Job
from projects.models import Project
from runtime.hints import wake
values = {values!r}
row = Job.objects.create(
    project=Project.objects.get(slug={project!r}),
    owner=User.objects.get(username={owner!r}),
    launch=1, asked_at=now(), next_reconcile_at=now(), **values,
)
wake(row)
answer = row.short_id
"""
_LOOK = """
from jobs.models import Job
from jobs.states import state_of
row = Job.objects.get(short_id={short_id!r})
answer = {{
    "state": str(state_of(row)), "reason": row.reason, "message": row.message,
    "exit_code": row.exit_code, "failed_replica": row.failed_replica,
    "uid": str(row.uid), "cluster": row.cluster_key,
    "times": [bool(row.started_at), bool(row.finished_at)],
    "steps": list(row.steps.values_list("word", flat=True)),
    "replicas": list(row.replica_rows.values(
        "index", "role", "seen", "exit_code", "node", "reason", "restarts"
    )),
}}
"""
_LOGS = """
from clusters.streams import log_read
answer = [
    log_read({cluster!r}, {uid!r}, replica=number).text for number in range({replicas!r})
]
"""
_STOP = """
from common.clock import now
from jobs.models import Job
from runtime.hints import hint
row = Job.objects.get(short_id={short_id!r})
row.desired, row.stop_reason, row.generation = "stopped", "cancelled", row.generation + 1
row.save()
hint(row)
answer = True
"""


class Jobs:
    """What a person does with jobs of ``project``."""

    def __init__(
        self, portal: Portal, *, owner: str, project: str = "demo", **columns: Any
    ) -> None:
        self.portal, self.owner, self.project, self.columns = portal, owner, project, columns

    def make(self, name: str, **columns: Any) -> str:
        values = {"name": name, **self.columns, **columns}
        code = _MAKE.format(values=values, project=self.project, owner=self.owner)
        return str(self.portal.shell(code))

    def look(self, short_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.portal.shell(_LOOK.format(short_id=short_id))
        return found

    def stop(self, short_id: str) -> None:
        self.portal.shell(_STOP.format(short_id=short_id))

    def logs(self, found: dict[str, Any], replicas: int) -> list[str]:
        asked = {"cluster": found["cluster"], "uid": found["uid"], "replicas": replicas}
        return list(self.portal.shell(_LOGS.format(**asked)))

    def until(self, short_id: str, *states: str, within_s: float = WITHIN_S) -> dict[str, Any]:
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            found = self.look(short_id)
            if found["state"] in states:
                return found
            assert found["state"] not in OVER, (found, self.logs(found, len(found["replicas"])))
            time.sleep(0.3)
        raise AssertionError(f"not {states} in {within_s:.0f} s: {found}\n{self.portal.tail()}")
