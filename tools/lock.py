"""Pins what requirements/*.in ask for, with hashes and without the address of any index."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.setup_shell import run, step
from tools.setup_steps import LOCKS, TOOLS
from tools.setup_uv import find_uv, index_environment

OPTIONS = ["--generate-hashes", "--no-emit-index-url", "--no-header", "--python-version", "3.11"]


def main(names: list[str]) -> None:
    uv = find_uv(TOOLS)
    # Developers' and server's versions must agree: dev.in includes server.in, so server first.
    sources = sorted(LOCKS.glob("*.in"), key=lambda p: (p.stem == "dev", p.stem))
    for source in sources:
        if names and source.stem not in names:
            continue
        with step(f"Locking {source.name}"):
            command = [uv, "pip", "compile", "-q", *OPTIONS, source]
            run([*command, "-o", source.with_suffix(".txt")], env=index_environment())


if __name__ == "__main__":
    main(sys.argv[1:])
