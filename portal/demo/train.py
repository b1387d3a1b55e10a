"""What the jobs of the demonstration run, as a program of its own: ``python train.py SECONDS``.

It computes nothing. Told that its GPUs are asked back it writes how far it is, and goes on from
there when it starts again.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path


def main(whole: int) -> None:
    kept = Path(os.environ["BERTH_CHECKPOINTS"]) / "step"
    step = int(kept.read_text()) if kept.exists() else 0

    def end(*_: object) -> None:
        kept.write_text(str(step))
        try:
            why = json.loads(Path(os.environ["BERTH_NOTICE_FILE"]).read_text())["why"]
        except (OSError, KeyError, ValueError):
            why = "it was told to end"
        say(f"checkpoint at step {step}: {why}")
        sys.exit(3)

    signal.signal(signal.SIGTERM, end)
    say(f"begins at step {step} of {whole}")
    while step < whole:
        time.sleep(1)
        step += 1
        if step % 10 == 0:
            say(f"step {step} of {whole}")
    say("done")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
