"""Can nodes pull the images that the cluster's options name, and do these have what is needed?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from django.utils.translation import gettext_noop as _n

from clusters.checks.base import Finding, green, probe_ended, red, unknown
from clusters.checks.probe_runner import Ended, ImageRefusedError, Needs, TooLongError

if TYPE_CHECKING:
    from clusters.checks.base import Subject
    from clusters.checks.probe_runner import Bench

# Of an empty script each code below is the program's own: it does not run. From 128 on somebody
# else ended it, or it never started; runtimes name the program where that was for lack of it.
NOT_STARTED = 128
PROGRAM = re.compile(r"""["'`]python3["'`]""")
LACKS = 10  # a code that Python does not end with by itself
# What notebooks.runtime_spec starts before a port of a container.
GUARD = f"""
try:
    import jupyterhub.services.auth
    from jupyter_server_proxy.standalone.app import make_standalone_proxy
except ImportError:
    raise SystemExit({LACKS})
"""


def act(subject: Subject, bench: Bench) -> Finding:
    del subject
    image = bench.image
    if not image:
        return unknown("image", _n("No check image, sidecar image or default image is set."))
    found = tried(bench, "image", image, "pass")
    if isinstance(found, Finding):
        return found
    if not found.code:
        return green("image", _n("%(image)s was pulled and ran."), image=image)
    if found.code < NOT_STARTED or PROGRAM.search(found.said):
        return red("image", _n("%(image)s has no python3 that runs."), image=image)
    return probe_ended("image", found.code)


def ports(subject: Subject, bench: Bench) -> Finding:
    """Containers with web ports are refused, or fail at their start, where this is not so."""
    image = subject.options.guard_image
    if not image:
        return unknown(
            "ports",
            _n(
                "Containers can have no web ports here: no image is set that signs people in before"
                " them. It is the option sidecar_image, else default_image."
            ),
            fix="helm upgrade berth deploy/helm/berth -n berth --reuse-values"
            " --set image.notebook.repository=REGISTRY/berth/notebook",
        )
    found = tried(bench, "ports", image, GUARD)
    if isinstance(found, Finding):
        return found
    if not found.code:
        return green("ports", _n("%(image)s signs people in before ports."), image=image)
    if PROGRAM.search(found.said):
        return red("ports", _n("%(image)s has no python3 that runs."), image=image)
    if found.code == LACKS:
        return red(
            "ports",
            _n(
                "Containers with web ports do not start: %(image)s lacks the Python packages"
                " jupyterhub and jupyter-server-proxy (4.5 or newer). Name another one as"
                " sidecar_image."
            ),
            image=image,
            fix=f"docker run --rm {image} jupyter-standaloneproxy --version",
        )
    return probe_ended("ports", found.code)


def tried(bench: Bench, name: str, image: str, script: str, pod: str = "") -> Ended | Finding:
    """How a script ended in a pod of that image, or what its node says of the image."""
    where, pod = bench.namespace("a"), pod or name
    bench.start(where, pod, script, needs=Needs(image=image))
    try:
        return bench.ended(where, pod)
    except ImageRefusedError as error:
        return red(
            name,
            _n("A pod with it does not start: %(why)s"),
            why=str(error)[:200],
            fix=f"kubectl run -it --rm check --image={image} -- python3 -V",
        )
    except TooLongError as error:
        if not PROGRAM.search(str(error)):  # a slow pull or a full cluster is no fault of the image
            raise
        return Ended(NOT_STARTED, str(error))
