"""Which kinds of device a node offers: flavors as data, and how an unknown kind gets one."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from common.ids import slugify
from runtime.drivers.kubernetes.nodes import tolerates
from runtime.use_sources import UseSource, WrongFieldError, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusters.models import Flavor


# Extended resources that are devices to compute with; anything else (network cards, licences)
# becomes a kind only when an operator says so.
KNOWN = re.compile(
    r"\A(nvidia\.com/gpu(\.shared)?|nvidia\.com/mig-.+|amd\.com/gpu|gpu\.intel\.com/.+"
    r"|habana\.ai/gaudi|google\.com/tpu|aws\.amazon\.com/neuron(core)?|rebellions\.ai/.+"
    r"|huawei\.com/Ascend.+|furiosa\.ai/.+)\Z"
)
# Of these, what is a part of a device, or counts something of it; and how labels say the same.
_PART = re.compile(
    r"\Anvidia\.com/mig-|\.shared\Z|\Agpu\.intel\.com/(?!(i915|xe)\Z)"
    r"|\Aaws\.amazon\.com/neuroncore\Z|\Ahuawei\.com/Ascend\w+-"
)
_PART_PRODUCT = re.compile(r"-MIG-\d|-SHARED\Z")
# Labels in which vendors name the product; the first that a node carries counts.
PRODUCT_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-tpu-accelerator",
    "node.kubernetes.io/instance-type",
)
MEMORY_LABEL = "nvidia.com/gpu.memory"  # MiB
# What a node tells about itself that people or pools ask for (C37).
SHOWN_LABEL = re.compile(
    r"(\A|/)(su|rack|rail|rails|nic|nics|nic-count|block|zone|region|pool|hostname|arch"
    r"|instance-type|simulated-gpu|fabric|topology.*)\Z|\Anvidia\.com/(gpu|mig|cuda)|\Aberth\.dev/"
    r"|\Anode-role\.kubernetes\.io/|\Aamd\.com/|\Agpu\.intel\.com/|\Atype\Z|nic"
)
_CARD = re.compile(r"\b(GB200|GB300|B200|B300|H200|H100|A100|L40S|L40|L4|A40|A30|A10|A2|T4|V100)\b")
_SIZE = re.compile(r"(\d+)\s*GB\b")
MAX_LABELS = 60
NOISE = re.compile(r"\A(beta\.kubernetes\.io|feature\.node\.kubernetes\.io|kubernetes\.io/os)/?")


@dataclass(frozen=True)
class NewKind:
    """A flavor to be made for devices that none of the known ones fits."""

    name: str
    label: str
    resource: str
    node_labels: dict[str, list[str]]
    memory_mib: int


def terms(node_labels: Mapping[str, Iterable[str]]) -> list[dict[str, str]]:
    """Return the label sets of which a node must carry one: label → values, multiplied out."""
    names = sorted(node_labels)
    values = product(*(sorted(node_labels[name]) for name in names))
    return [dict(zip(names, chosen, strict=True)) for chosen in values]


def fits(flavor: Any, labels: Mapping[str, str], resource: str) -> bool:
    """Whether devices called ``resource`` on a node with ``labels`` are of this kind."""
    if flavor.resource != resource or not flavor.node_labels:
        return False
    return all(labels.get(name) in values for name, values in flavor.node_labels.items())


def is_part(flavor: Any) -> bool:
    """Whether a device of this kind is not a whole one: a slice, or one that several share."""
    if _PART.search(flavor.resource):
        return True
    values = [value for values in (flavor.node_labels or {}).values() for value in values]
    return any(_PART_PRODUCT.search(value) for value in values)


def offers(
    flavors: Iterable[Any], labels: Mapping[str, str], accelerators: Mapping[str, int]
) -> dict[str, int]:
    """Return flavor name → devices of one node. The most exact flavor wins a resource."""
    found: dict[str, int] = {}
    ordered = sorted(flavors, key=lambda f: (-len(f.node_labels or {}), f.position, f.name))
    for resource, count in accelerators.items():
        if count <= 0:
            continue
        flavor = next((f for f in ordered if fits(f, labels, resource)), None)
        if flavor is not None:
            found[flavor.name] = found.get(flavor.name, 0) + count
    return found


def variant_of(flavor: Any, labels: Mapping[str, str]) -> str:
    """Return what tells nodes of a kind apart that may say it in several ways."""
    if all(len(values) == 1 for values in flavor.node_labels.values()):
        return ""
    return slugify("-".join(labels.get(name, "") for name in sorted(flavor.node_labels)))


def levels_carried(
    nodes: Iterable[Any], flavors: Mapping[str, Any], levels: Iterable[str]
) -> dict[tuple[str, str], set[str]]:
    """Return by kind and variant which of some labels any of its nodes carries.

    To a queue that knows levels, a node that lacks one of those is not there.
    """
    wanted = set(levels)
    found: dict[tuple[str, str], set[str]] = {}
    for node in nodes:
        for name in node.offers.keys() & flavors.keys():
            key = (name, variant_of(flavors[name], node.labels))
            found.setdefault(key, set()).update(n for n in wanted if node.labels.get(n))
    return found


def unknown(
    flavors: Iterable[Any], labels: Mapping[str, str], accelerators: Mapping[str, int]
) -> list[NewKind]:
    """Return the kinds that a node has and no flavor knows."""
    known = list(flavors)
    return [
        new_kind(labels, resource)
        for resource, count in sorted(accelerators.items())
        if count > 0 and KNOWN.match(resource) and not any(fits(f, labels, resource) for f in known)
    ]


def new_kind(labels: Mapping[str, str], resource: str) -> NewKind:
    label = next((name for name in PRODUCT_LABELS if labels.get(name)), "")
    value = labels.get(label, "")
    words = value.replace("-", " ").replace("_", " ").strip() or resource
    name = _short(words, labels)
    part = resource.partition("nvidia.com/mig-")[2]
    if part:
        name, words = f"{name}-mig-{slugify(part)}", f"{words} MIG {part}"
    memory = labels.get(f"{resource}.memory") or (labels.get(MEMORY_LABEL) if not part else "")
    return NewKind(
        name=(name or slugify(resource))[:63].strip("-"),
        label=words[:120],
        resource=resource,
        node_labels={label: [value]} if label else {"kubernetes.io/os": ["linux"]},
        memory_mib=int(memory) if memory and str(memory).isdigit() else 0,
    )


def _short(words: str, labels: Mapping[str, str]) -> str:
    """``NVIDIA A100 SXM4 80GB`` → ``a100-80``: what people say."""
    if " MIG " in words or words.endswith("SHARED"):
        return slugify(words.removeprefix("NVIDIA "), limit=50)
    card = _CARD.search(words)
    if card is None:
        return slugify(words.removeprefix("NVIDIA "), limit=50)
    size = _SIZE.search(words)
    memory = str(labels.get(MEMORY_LABEL, ""))
    if size:
        return f"{card[1].lower()}-{size[1]}"
    if memory.isdigit() and card[1] in {"A100", "H100", "V100"}:
        return f"{card[1].lower()}-{round(int(memory) / 1024)}"
    return card[1].lower()


def shown_labels(labels: Mapping[str, str], wanted: Iterable[str]) -> dict[str, str]:
    """Return the labels worth keeping: what flavors and pools ask for, known facts, the rest."""
    needed = set(wanted)

    def rank(name: str) -> tuple[bool, bool, str]:
        return (name not in needed, not SHOWN_LABEL.search(name), name)

    names = [name for name in labels if name in needed or not NOISE.search(name)]
    return {name: labels[name] for name in sorted(names, key=rank)[:MAX_LABELS]}


def closed_by(
    taints: Iterable[Mapping[str, str]],
    accelerators: Mapping[str, int],
    tolerations: Iterable[Mapping[str, str]],
) -> str:
    """Return the taint that keeps all work off a node, or ''."""
    known = list(tolerations)
    for taint in taints:
        key = taint.get("key", "")
        if taint.get("effect") not in {"NoSchedule", "NoExecute"} or key in accelerators:
            continue
        if not any(tolerates(entry, taint) for entry in known):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"{key}{value}"
    return ""


def is_plain(taints: Iterable[Mapping[str, str]]) -> bool:
    """Whether work without devices may come to such a node unless it names a pool."""
    return not closed_by(taints, {}, ())


def held_by_kind(
    offers: Mapping[str, int], held: Mapping[str, int], resources: Mapping[str, str]
) -> dict[str, int]:
    """Return how many devices of each kind somebody else's pods have of a node.

    ``held``: by resource; ``resources``: that of each kind.
    """
    found = {
        kind: min(int(devices), int(held.get(resources.get(kind, ""), 0)))
        for kind, devices in offers.items()
    }
    return {kind: devices for kind, devices in found.items() if devices}


def ours_by_kind(offers: Mapping[str, int], work: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return how many devices of each kind our own work has of a node.

    ``work``: the kind that each asked for, and how many; "any of" counts for the first kind there.
    """
    found: Counter[str] = Counter()
    first = next(iter(offers), "")
    for asked, devices in work:
        if kind := asked if asked in offers else first:
            found[kind] += devices
    return dict(found)


# Where figures of use of each kind of device come from: what its operator says, else what is known
# of its resource (``use_sources.toml``).


log = structlog.get_logger(__name__)

_FILE = Path(__file__).with_name("use_sources.toml")


@cache
def _known() -> dict[str, dict[str, str]]:
    return tomllib.loads(_FILE.read_text("utf-8"))


def known_of(resource: str) -> dict[str, str]:
    """Return the fields of what is built in for a resource; {} for none."""
    for name, fields in _known().items():
        if name == resource or (name.endswith("*") and resource.startswith(name[:-1])):
            return dict(fields)
    return {}


def sources_of(flavors: Iterable[Flavor]) -> list[UseSource]:
    """Return each source once."""
    said: list[Mapping[str, Any]] = [f.use_source or known_of(f.resource) for f in flavors]
    found: dict[UseSource, None] = {}
    for fields in said:
        try:
            if fields:
                found[parse(fields)] = None
        except WrongFieldError as error:  # a row that an older version wrote
            log.warning("use_source.refused", field=error.field)
    return list(found)
