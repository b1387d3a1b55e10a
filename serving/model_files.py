"""Which framework wrote a model, by the names of its files. Pure; nothing is opened."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from common.errors import wrong
from serving.choices import Framework

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SAVED_MODEL = "saved_model.pb"
# What a server looks for at the top of the folder: model.ENDING, or the one file that ends so.
ENDINGS: dict[str, tuple[str, ...]] = {
    Framework.SKLEARN: (".joblib", ".pkl"),
    Framework.XGBOOST: (".ubj", ".json", ".bst"),
    Framework.LIGHTGBM: (".txt", ".lgb"),
    Framework.ONNX: (".onnx",),
    Framework.PYTORCH: (".pt", ".pt2"),
}
# Others end so too: only a file that is called model.ENDING says which framework it is of.
_PLAIN = frozenset({".json", ".txt"})
_NAMED = 5
ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")  # as the file browser unpacks


def frameworks_in(paths: Iterable[str]) -> list[str]:
    """Return the frameworks that load what is called so, the likeliest first."""
    found = {path: PurePosixPath(path) for path in paths}
    names = {str(path) for path in found.values()}
    tops = [path for path in found.values() if len(path.parts) == 1]
    fits = []
    if any(path.name == SAVED_MODEL and _is_version(path.parts[:-1]) for path in found.values()):
        fits.append(Framework.TENSORFLOW)
    if any(path.match("*/config.pbtxt") for path in found.values()):
        fits.append(Framework.TRITON)
    if "config.json" in names and any(
        path.suffix == ".safetensors" or path.name == "pytorch_model.bin" for path in tops
    ):
        return [*fits, Framework.HUGGINGFACE]  # beside it lie files that look like others
    for framework, endings in ENDINGS.items():
        its = [path for path in tops if path.suffix.lower() in endings]
        said = [path for path in its if path.stem == "model"]
        if said or any(path.suffix.lower() not in _PLAIN for path in its):
            fits.append(Framework(framework))
    return [str(one) for one in fits]


def framework_of(paths: Sequence[str], said: str = "") -> str:
    """Return the framework of a model's files, as ``said`` or as their names tell.

    Raises Invalid, with what would do, where no file fits or several frameworks do.
    """
    if not paths:
        raise wrong("origin", _("There are no files in this folder."))
    fits = frameworks_in(paths)
    if said and (said == Framework.CUSTOM or said in fits or _could_be(paths, said)):
        return said
    told: dict[str, object] = {"there": ", ".join(sorted(paths)[:_NAMED])}
    if said and fits:
        told |= {"framework": Framework(said).label, "fits": _labels(fits)}
        message = _("No file is one that %(framework)s loads. What would do: %(fits)s.")
    elif said:
        told |= {"framework": Framework(said).label, "names": looked_for(said)}
        message = _("%(framework)s looks for %(names)s. The folder has: %(there)s.")
    elif len(fits) == 1:
        return fits[0]
    elif fits:
        told |= {"fits": _labels(fits)}
        message = _("The files fit several frameworks, say which: %(fits)s.")
    elif archives := [path for path in paths if path.lower().endswith(ARCHIVES)]:
        told |= {"name": archives[0][:200]}
        message = _("%(name)s is an archive: unpack it where it is (Files) and look again.")
    else:
        message = _("No file says which framework wrote it. The folder has: %(there)s.")
    raise wrong("framework", message % told)


def _labels(frameworks: Iterable[str]) -> str:
    return ", ".join(str(Framework(one).label) for one in frameworks)


def looked_for(framework: str) -> str:
    """Return the names under which a server looks for a model of it, as people read them."""
    if framework == Framework.TENSORFLOW:
        return SAVED_MODEL
    if framework == Framework.TRITON:
        return "NAME/config.pbtxt"
    if framework == Framework.HUGGINGFACE:
        return "config.json, *.safetensors"
    return ", ".join(f"model{ending}" for ending in ENDINGS.get(framework, ()))


def place_in(paths: Sequence[str]) -> str:
    """Return the folder that all of them are in, below the one that was looked into; "": none.

    A bucket's last word is kept by a load, so a model may lie one folder deeper. A SavedModel's
    folder of its number stays: the server finds it.
    """
    first = {path.partition("/")[0] for path in paths if "/" in path}
    if len(first) != 1 or any("/" not in path for path in paths):
        return ""
    (name,) = first
    inside = [path.partition("/")[2] for path in paths]
    if name.isdecimal() and SAVED_MODEL in inside:
        return ""
    return "" if "config.pbtxt" in inside else name


def _could_be(paths: Sequence[str], framework: str) -> bool:
    """Whether the one file that ends so is meant, whatever it is called."""
    endings = ENDINGS.get(framework, ())
    tops = [PurePosixPath(path) for path in paths if "/" not in path]
    return len([path for path in tops if path.suffix.lower() in endings]) == 1


def _is_version(parents: tuple[str, ...]) -> bool:
    return not parents or (len(parents) == 1 and parents[0].isdecimal())
