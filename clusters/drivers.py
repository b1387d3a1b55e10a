"""The drivers by name, as far as they are known without one: what each one's clusters are like."""

from collections.abc import Mapping

from runtime.capabilities import Traits
from runtime.drivers.kubernetes import names

KUBERNETES = "kubernetes"
TRAITS: Mapping[str, Traits] = {
    "fake": Traits(),
    "local": Traits(),
    KUBERNETES: Traits(runs_images=True, has_tenants=True, names=names),
}
RUN_IMAGES = frozenset(name for name, traits in TRAITS.items() if traits.runs_images)
HAVE_TENANTS = frozenset(name for name, traits in TRAITS.items() if traits.has_tenants)
