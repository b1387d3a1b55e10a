"""What the jobs of the demonstration run, as a program of its own: ``python train.py SECONDS``.

It computes nothing, and does what a training should: it tells of its steps, keeps checkpoints and
goes on from the newest, also after its GPUs were asked back, says how good it is, and leaves that.
"""

import argparse
import json
import math
import os
import signal
import sys
import time
from pathlib import Path

KEEPS_EACH = 10  # steps
BEST_RATE = 0.003


def main(whole: int, rate: float) -> None:
    kept = Path(os.environ["BERTH_CHECKPOINTS"])
    latest = Path(os.environ["BERTH_CHECKPOINT_LATEST"])
    step = int(latest.read_text()) if latest.exists() else 0

    def keep() -> None:
        """What is renamed into its place is complete."""
        told(checkpoint_save_start_time=time.time())
        (kept / ".new").write_text(str(step))
        (kept / ".new").rename(kept / f"step-{step}")
        told(checkpoint_save_end_time=time.time())

    def end(*_: object) -> None:
        keep()
        try:
            why = json.loads(Path(os.environ["BERTH_NOTICE_FILE"]).read_text())["why"]
        except (OSError, KeyError, ValueError):
            why = "it was told to end"
        say(f"checkpoint at step {step}: {why}")
        sys.exit(3)

    signal.signal(signal.SIGTERM, end)
    told(job_start_time=time.time())
    say(f"begins at step {step} of {whole}")
    while step < whole:
        told(step_count=step, step_start_time=time.time())
        time.sleep(1)
        step += 1
        if step % KEEPS_EACH == 0:
            keep()
            say(f"step {step} of {whole}")
        if step % (KEEPS_EACH // 2) == 0:
            say(f"accuracy={accuracy(step, whole, rate):.4f}")
    told(job_end_time=time.time())
    if folder := os.environ.get("BERTH_OUTPUT"):
        curve = [f"{n},{accuracy(n, whole, rate):.4f}" for n in range(1, whole + 1)]
        Path(folder, "accuracy.csv").write_text("\n".join(["step,accuracy", *curve, ""]))
        Path(folder, "model.json").write_text(json.dumps({"steps": whole, "learning_rate": rate}))
    say("done")


def accuracy(step: int, whole: int, rate: float) -> float:
    """Made up: it grows, and a rate far from the best ends lower."""
    return 0.95 * (1 - math.exp(-4 * step / whole)) / (1 + math.log10(rate / BEST_RATE) ** 2 / 4)


def told(**what: float) -> None:
    """Say something of itself, which becomes its goodput."""
    if name := os.environ.get("BERTH_EVENTS"):
        with Path(name).open("a") as file:
            file.write(f"{json.dumps(what)}\n")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("seconds", type=int)
    words.add_argument("--lr", type=float, default=BEST_RATE)
    said = words.parse_args()
    main(said.seconds, said.lr)
