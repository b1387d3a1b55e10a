"""Names of environment variables that a user may set, wherever he writes them."""

from __future__ import annotations

import re

NAME = re.compile(r"\A[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
# Names that change what code is loaded, which devices are seen, or who the workload is.
_PREFIXES = ("LD_", "DYLD_", "NVIDIA_", "CUDA_", "JUPYTERHUB_", "BERTH_", "GLIBC_")
_NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "VIRTUAL_ENV"),
        *("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONINSPECT"),
        *("JUPYTER_CONFIG_DIR", "JUPYTER_CONFIG_PATH", "JUPYTER_PATH", "JUPYTER_RUNTIME_DIR"),
        *("JUPYTER_DATA_DIR", "MEM_LIMIT", "CPU_LIMIT", "BASH_ENV", "ENV", "IFS", "GCONV_PATH"),
        *("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "NODE_OPTIONS"),
    }
)


def is_name(text: object) -> bool:
    return isinstance(text, str) and bool(NAME.match(text))


def is_refused(name: str) -> bool:
    """Whether only Berth itself may set it."""
    upper = name.upper()
    return upper in _NAMES or upper.startswith(_PREFIXES)
