"""The words of performance tests."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class Test(TextChoices):
    """What is measured; the collectives are called as nccl-tests calls them."""

    ALL_REDUCE = "all-reduce", _("NCCL test: all-reduce")
    ALL_GATHER = "all-gather", _("NCCL test: all-gather")
    REDUCE_SCATTER = "reduce-scatter", _("NCCL test: reduce-scatter")
    SCALING = "scaling", _("Scaling test")


class State(TextChoices):
    """How a test is."""

    RUNNING = "running", _("Running")
    SUCCEEDED = "succeeded", _("Succeeded")
    FAILED = "failed", _("Failed")
    STOPPED = "stopped", _("Stopped")


class Backend(TextChoices):
    """What moved the data; "": not known yet."""

    NCCL_TESTS = "nccl-tests", _("nccl-tests")
    NCCL = "nccl", _("PyTorch with NCCL")
    GLOO = "gloo", _("PyTorch with Gloo, on CPUs: a stand-in")
    SOCKETS = "sockets", _("Python's sockets, on CPUs: a stand-in")
