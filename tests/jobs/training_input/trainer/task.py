# ruff: noqa: T201 - a program tells its log
"""The module that a training job runs."""

import argparse
import os
import time
from pathlib import Path

from trainer.model import trained

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--learning-rate", type=float, default=0.01)
parser.add_argument("--job-dir", default="")
parser.add_argument("--sleep", type=float, default=0)
parser.add_argument("--steps", type=int, default=0)
said = parser.parse_args()
assert Path.cwd() == Path(os.environ["BERTH_CODE"])
assert "BERTH_CODE_TOKEN" not in os.environ
where = (os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1"))
print(f"replica {where[0]} of {where[1]}, results to {said.job_dir or 'nowhere'}", flush=True)
time.sleep(said.sleep)
print(f"slope {trained(said.epochs + said.steps, said.learning_rate):.4f}", flush=True)
