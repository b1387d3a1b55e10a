"""Can nodes pull the images that the cluster's options name?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from django.utils.translation import gettext_noop as _n

from clusters.checks.base import Finding, green, probe_ended, red, unknown
from clusters.checks.bench import Ended, ImageRefusedError, TooLongError

if TYPE_CHECKING:
    from clusters.checks.base import Subject
    from clusters.checks.bench import Bench

# Of an empty script each code below is the program's own: it does not run. From 128 on somebody
# else ended it, or it never started; runtimes name the program where that was for lack of it.
NOT_STARTED = 128
PROGRAM = re.compile(r"""["'`]python3["'`]""")


def act(subject: Subject, bench: Bench) -> Finding:
    del subject
    if not bench.image:
        return unknown("image", _n("No check image, sidecar image or default image is set."))
    where = bench.namespace("a")
    bench.start(where, "image", "pass")
    try:
        ended = bench.ended(where, "image")
    except ImageRefusedError as error:
        return red(
            "image",
            _n("A pod with it does not start: %(why)s"),
            why=str(error)[:200],
            fix=f"kubectl run -it --rm check --image={bench.image} -- python3 -V",
        )
    except TooLongError as error:
        if not PROGRAM.search(str(error)):  # a slow pull or a full cluster is no fault of the image
            raise
        ended = Ended(NOT_STARTED, str(error))
    if not ended.code:
        return green("image", _n("%(image)s was pulled and ran."), image=bench.image)
    if ended.code < NOT_STARTED or PROGRAM.search(ended.said):
        return red("image", _n("%(image)s has no python3 that runs."), image=bench.image)
    return probe_ended("image", ended.code)
