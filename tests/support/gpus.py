"""What tests with simulated GPUs need of the machine: no real ones, beside which they are refused."""

import pytest

from runtime.drivers.local.gpus import NvmlSource

NO_REAL_GPUS = pytest.mark.skipif(
    bool(NvmlSource().devices()), reason="simulated GPUs are refused beside real ones"
)
