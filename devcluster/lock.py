"""Pins a program's modules: go.mod and go.sum from the version in the table of programs."""

import json
from typing import Any

from devcluster.programs import KUBERNETES, Program, go, go_environment
from tools.setup_shell import run, say

STAGING = "v0.0.0"  # what Kubernetes says of its own libraries inside its repository
TOOLS = """//go:build tools

// Package tools names the main packages that this module builds.
package tools

import (
{}
)
"""


def lock(program: Program) -> None:
    env = {**go_environment(), "GOFLAGS": "-mod=mod"}
    folder = program.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text(
        f"module berth.dev/devcluster/{program.name}\n\n"
        f"go 1.26\n\nrequire {program.module} {program.version}\n"
    )
    imports = "\n".join(f'\t_ "{program.module}{suffix}"' for suffix in program.packages)
    (folder / "tools.go").write_text(TOOLS.format(imports))
    name = f"{program.module}@{program.version}"
    facts = json.loads(run([go(), "mod", "download", "-json", name], env=env, cwd=folder))
    theirs = json.loads(run([go(), "mod", "edit", "-json", facts["GoMod"]], cwd=folder))
    if replaced := replacements(theirs):
        run([go(), "mod", "edit", *replaced], cwd=folder)
    # A main package can't be imported: -e goes on, and what it needs is recorded all the same.
    run([go(), "list", "-e", "-deps", "-tags", "tools", "./..."], env=env, cwd=folder)
    say(f"  locked {program.name} {program.version} ({(folder / 'go.sum').stat().st_size} bytes)")


def replacements(module: dict[str, Any]) -> list[str]:
    """A module's own replacements count only at home, so they are repeated."""
    found = []
    for one in module.get("Replace") or []:
        old, new = one["Old"], one["New"]
        if new.get("Version"):
            version = f"@{old['Version']}" if old.get("Version") else ""
            found.append(f"-replace={old['Path']}{version}={new['Path']}@{new['Version']}")
    staging = KUBERNETES.replace("v1.", "v0.")
    found += [
        f"-replace={one['Path']}={one['Path']}@{staging}"
        for one in module.get("Require") or []
        if one["Version"] == STAGING
    ]
    return found
