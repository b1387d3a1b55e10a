"""Pins a program's modules: go.mod and go.sum from the version in the table of programs."""

import json
from typing import Any

from devcluster.programs import KUBERNETES, PROGRAMS, Program, go, go_environment
from tools.setup_shell import run, say

STAGING = "v0.0.0"  # what Kubernetes says of its own libraries inside its repository
MODULE = "{{with .Module}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}"
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
    (folder / "go.sum").unlink(missing_ok=True)  # no hash of what is not used any more
    (folder / "go.mod").write_text(
        f"module berth.dev/devcluster/{program.name}\n\n"
        f"go 1.26\n\nrequire {program.module} {program.version}\n"
    )
    if not program.own_main:
        imports = "\n".join(f'\t_ "{path}"' for path in program.paths)
        (folder / "tools.go").write_text(TOOLS.format(imports))
    name = f"{program.module}@{program.version}"
    facts = json.loads(run([go(), "mod", "download", "-json", name], env=env, cwd=folder))
    theirs = json.loads(run([go(), "mod", "edit", "-json", facts["GoMod"]], cwd=folder))
    replaced = replacements(theirs)
    replaced += [f"-replace={one.partition('@')[0]}={one}" for one in program.newer]
    if replaced:
        run([go(), "mod", "edit", *replaced], cwd=folder)
    versions(program)
    if program.shares:
        share(program)
    say(f"  locked {program.name} {program.version} ({(folder / 'go.sum').stat().st_size} bytes)")


def versions(program: Program) -> dict[str, str]:
    """The modules whose packages it uses, and their versions; what is missing is recorded."""
    env = {**go_environment(), "GOFLAGS": "-mod=mod"}
    # A main package can't be imported: -e goes on, and what it needs is recorded all the same.
    command = [go(), "list", "-e", "-deps", "-tags", "tools", "-f", MODULE, "./..."]
    lines = run(command, env=env, cwd=program.folder).splitlines()
    return dict(words for line in set(lines) if len(words := line.split()) == 2)  # noqa: PLR2004


def share(program: Program) -> None:
    """Gives it Kubernetes' versions; another version may draw in further modules."""
    theirs, used = versions(PROGRAMS["kubernetes"]), versions(program)
    while other := sorted(name for name in used if theirs.get(name, used[name]) != used[name]):
        run(
            [go(), "mod", "edit", *(f"-replace={name}={name}@{theirs[name]}" for name in other)],
            cwd=program.folder,
        )
        used = versions(program)


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
