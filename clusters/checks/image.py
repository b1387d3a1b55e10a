"""Can nodes pull the images that the cluster's options name?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext_noop as _n

from clusters.checks.base import Finding, green, red, unknown
from clusters.checks.bench import BenchError

if TYPE_CHECKING:
    from clusters.checks.base import Subject
    from clusters.checks.bench import Bench


def act(subject: Subject, bench: Bench) -> Finding:
    del subject
    if not bench.image:
        return unknown("image", _n("No check image, sidecar image or default image is set."))
    where = bench.namespace("a")
    bench.start(where, "image", "pass")
    try:
        code = bench.exit_code(where, "image")
    except BenchError as error:
        return red(
            "image",
            _n("A pod with it does not start: %(why)s"),
            why=str(error)[:200],
            fix=f"kubectl run -it --rm check --image={bench.image} -- python3 -V",
        )
    if code:
        return red("image", _n("%(image)s has no python3 that runs."), image=bench.image)
    return green("image", _n("%(image)s was pulled and ran."), image=bench.image)
