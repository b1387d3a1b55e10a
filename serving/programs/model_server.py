"""Serves one model: KServe's v1, Open Inference v2, and figures for who shares requests out.

    model_server --framework sklearn --model-dir /mnt/models --name iris --port 8080

Ends at once with one sentence where the file does not fit; ``--describe`` prints what it takes.
Besides the framework it needs requirements/model-server.in, and nothing of the portal.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .files import FRAMEWORKS, LACKS, REFUSED, RefusedError, model_file

if TYPE_CHECKING:
    from .models import Model

CGROUP = Path("/sys/fs/cgroup")
MOST_AT_ONCE = 8


def main(words: list[str] | None = None) -> None:
    """Open the model and serve it until SIGTERM."""
    options = _options(words)
    cpus = _cpus()
    at_once = options.at_once or min(cpus, MOST_AT_ONCE)
    threads = max(1, cpus // at_once)  # of the libraries, for each request
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, str(threads))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # ONNX Runtime tells its makers of its use
    try:
        model = opened(options.framework, options.model_dir, threads)
        from .http_server import Server  # after the file: one that is refused is told at once
        from .protocols import described
    except RefusedError as problem:
        sys.stderr.write(f"berth: {problem}\n")
        sys.exit(problem.code)
    except ImportError as problem:
        sys.stderr.write(f"berth: The model server lacks a package: {problem.name}.\n")
        sys.exit(LACKS)
    if options.describe:
        sys.stdout.write(described(options.framework, model) + "\n")
        return
    sys.stderr.write(f"berth: {options.name} is served on port {options.port}.\n")
    server = Server(model, options, at_once, _memory())
    asyncio.run(server.serve(options.host, options.port, options.ends_within))


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="model_server", description=__doc__)
    parser.add_argument("--framework", choices=FRAMEWORKS, required=True)
    parser.add_argument("--model-dir", type=Path, required=True)
    parser.add_argument("--name", default="model")
    parser.add_argument("--version", default="")
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104 - a pod's own address
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--at-once", type=int, default=0, help="requests answered at once")
    parser.add_argument("--most-body-mib", type=int, default=32)
    parser.add_argument("--drain-seconds", type=float, default=1.0)
    parser.add_argument("--ends-within", type=int, default=30)
    parser.add_argument("--describe", action="store_true", help="print inputs and outputs")
    return parser.parse_args(words)


def opened(framework: str, folder: Path, threads: int) -> Model:
    """Open the model in ``folder``; each way in which it can't be opened is a sentence."""
    title, file = FRAMEWORKS[framework].title, folder
    try:
        file = model_file(framework, folder, _memory())
        from . import networks, tables

        openers: dict[str, Callable[[Path, int], Model]] = {
            "sklearn": tables.SklearnModel,
            "xgboost": tables.XGBoostModel,
            "lightgbm": tables.LightGBMModel,
            "onnx": networks.OnnxModel,
            "tensorflow": networks.TensorFlowModel,
            "pytorch": networks.TorchModel,
        }
        return openers[framework](file, threads)
    except RefusedError:
        raise
    except ImportError as problem:
        lacks = (problem.name or "").partition(".")[0] or problem
        text = f"{title} can't open {file.name}: {lacks} is not installed here."
        raise RefusedError(text, LACKS) from problem
    except OSError as problem:  # of the system's own libraries
        lacks = str(problem).partition(":")[0]
        text = f"{title} can't open {file.name}: {lacks} is not installed here."
        if ".so" not in lacks:
            text = f"{title} can't open {file.name}: {problem}"
        raise RefusedError(text, LACKS if ".so" in lacks else REFUSED) from problem
    except MemoryError as problem:
        raise RefusedError(f"{file.name} needs more memory than there is.") from problem
    except Exception as problem:
        said = next(iter(str(problem).strip().splitlines()), "")[:300]
        text = f"{title} can't open {file.name}: {type(problem).__name__}: {said}"
        raise RefusedError(text, REFUSED) from problem


def _cpus() -> int:
    """How many CPUs its control group leaves, at least one."""
    here = len(os.sched_getaffinity(0))
    quota, _, period = _text(CGROUP / "cpu.max").partition(" ")
    if not period:
        quota, period = (_text(CGROUP / f"cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
    if quota.isdigit() and period.isdigit():
        return max(1, min(here, round(int(quota) / int(period))))
    return here


def _memory() -> int:
    """How many bytes of memory its control group, its limits and the machine leave."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    said = [_text(CGROUP / name) for name in ("memory.max", "memory/memory.limit_in_bytes")]
    limits += [int(text) for text in said if text.isdigit()]
    limits += [n for n in resource.getrlimit(resource.RLIMIT_AS) if n != resource.RLIM_INFINITY]
    return min(limits)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    main()
