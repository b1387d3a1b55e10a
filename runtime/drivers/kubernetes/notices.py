"""How the programs of a pod learn that it is about to end: by a file in its memory and a hook.

Whom Berth ends is told before, by its image's shell (``tell``): why, and until when. What the
cluster itself ends (its queue takes the place, a node is emptied) is told by the container's last
act (``at_the_end``), which any end of a pod begins with. An image without a shell, and a node that
does not answer, are told by SIGTERM alone; nothing waits for either.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence

import structlog

from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.observe import is_going, main_name

log = structlog.get_logger(__name__)

_TELL_S = 3.0
_WRITE = 'n=$BERTH_NOTICE_FILE; printf %s "$1" >"$n.new" && mv -f "$n.new" "$n"'
# SIGTERM follows when this is over, after half of the grace at the latest; the hook goes on.
_LAST = """\
n=$BERTH_NOTICE_FILE
if [ ! -s "$n" ]; then
  t=$(date -u -d "@$(($(date +%s) + GRACE))" +%Y-%m-%dT%H:%M:%S+00:00)
  printf '{"why": "ending", "until": "%s"}' "$t" >"$n.new" && mv -f "$n.new" "$n"
fi
h=${HOME:-}/.berth/on-park
[ -x "$h" ] || exit 0
trap 'exit 0' TERM
("$h" >/proc/1/fd/1 2>&1 </dev/null; kill $$) &
sleep HALF &
wait $!
"""


def at_the_end(grace_s: int) -> str:
    """Return what a container's shell does when its pod is told to go."""
    return _LAST.replace("GRACE", str(grace_s)).replace("HALF", str(max(1, grace_s // 2)))


def tell(client: KubeClient, pods: Iterable[Object], notice: Mapping[str, str]) -> None:
    """Write a notice into each pod that runs and is not ending."""
    running = [
        (str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"]), main_name(pod))
        for pod in pods
        if (pod.get("status") or {}).get("phase") == "Running" and not is_going(pod)
    ]
    if running:
        command = ("sh", "-c", _WRITE, "berth", json.dumps(dict(notice)))
        asyncio.run(_in_each(client, running, command))


async def _in_each(
    client: KubeClient, pods: Sequence[tuple[str, str, str]], command: Sequence[str]
) -> None:
    # only a process that tells something holds what streams need
    from runtime.drivers.kubernetes.streams import Endpoint, KubeStreams
    from runtime.streams import Pod

    streams = KubeStreams(Endpoint.of(client.access, client.check))

    async def run(*pod: str) -> None:
        async with await streams.exec(Pod(*pod), command, stdin=False) as running:
            async for _said in running.output():
                pass

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_TELL_S):
            asked = (run(*pod) for pod in pods)
            for problem in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(problem, BaseException):
                    log.info("kubernetes.not_told", error=str(problem))
