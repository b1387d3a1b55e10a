"""Images of model servers, made when they are first asked for: some have libraries of gigabytes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from devcluster import oci
from devcluster.images import (
    PACKAGES_OF,
    PATHS,
    PERSON,
    UTF8,
    Recipe,
    Said,
    debian,
    echo,
    locked,
    serving_debian,
    single,
)
from devcluster.images import publish as publish_image
from devcluster.layout import ROOT
from devcluster.programs import only_one
from tools.setup_shell import digest

PORT = 8080
PLACE = "/opt/serving"
PROGRAM = ("python3", "-I", "-m", "serving.programs.model_server")
# The words by which the catalogue of model servers names them.
NAMES = ("serving", "serving-tensorflow", "serving-pytorch")


def publish(name: str, say: Said = lambda _said: None) -> dict[str, str]:
    """Make the image of that name where it is not made yet; what it is called, and its digest."""
    with only_one(f"image-{name}"):
        return publish_image(predictor if name == "predictor" else partial(server, name), say)


def server(name: str, say: Said, recipes: Sequence[Recipe] = ()) -> oci.Image:
    """The model server with the libraries of requirements/``name``.txt, or of ``recipes``."""
    if not recipes:
        packages = locked(name, PLACE, ROOT / f"requirements/{name}.txt")
        recipes = (serving_debian(), packages, program())
    return oci.Image(
        f"berth/{name}",
        "1",
        [recipe.layer(say) for recipe in recipes],
        ["/usr/bin/tini", "--", *PROGRAM],
        environment={"PATH": f"{PLACE}/bin:{PATHS}", **UTF8},
        user=PERSON,
        folder="/home/berth",
        ports=(PORT,),
    )


def program() -> Recipe:
    """Our own files, in a layer of their own: they change more often than what they need."""
    sources = [ROOT / "serving/__init__.py", *sorted((ROOT / "serving/programs").rglob("*.py"))]
    site = f"{PLACE}/{PACKAGES_OF}"
    files: dict[str, Path | bytes] = {f"{site}/{s.relative_to(ROOT)}": s for s in sources}
    key = digest(*files, *sources)
    return Recipe("model-server", key, lambda at: oci.write_layer(at, oci.files_as_tar(files)))


def predictor(say: Said) -> oci.Image:
    """A server of people's own, of which nothing is ours."""
    source = ROOT / "devcluster/pods/predictor.py"
    place = "/opt/predictor.py"
    layers = [debian().layer(say), single("predictor", place, source).layer(say)]
    command = ["/usr/bin/python3", place]
    made = replace(echo(say), name="berth/predictor", layers=layers, command=command)
    return replace(made, ports=(PORT,))
