"""Projects and presets."""

from __future__ import annotations

from typing import Any

import click

from berth_cli import completing, config
from berth_cli.context import Session, with_session
from berth_cli.output import cpus, mib

_COLUMNS: Any = (
    ("PROJECT", lambda r: r["slug"]),
    ("NAME", lambda r: r["name"]),
    ("ROLE", lambda r: r.get("role")),
    ("STATE", lambda r: "archived" if r.get("archived_at") else "active"),
)


@click.group()
def project() -> None:
    """Projects you belong to."""


@project.command("list")
@with_session
def project_list(s: Session) -> None:
    """List your projects."""
    s.show(list(s.client.pages("projects")), _COLUMNS)


@project.command("show")
@click.argument("name", required=False, shell_complete=completing.projects)
@with_session
def project_show(s: Session, name: str | None) -> None:
    """Show one project."""
    s.show(s.client.get(f"projects/{name or s.project}"), _COLUMNS)


@project.command("create")
@click.argument("name")
@click.option("--description", default="", help="What it is for.")
@with_session
def project_create(s: Session, name: str, description: str) -> None:
    """Make a project; you become its owner."""
    made = s.client.post("projects", {"name": name, "description": description})
    s.show(made, _COLUMNS)


@project.command("use")
@click.argument("name", shell_complete=completing.projects)
@with_session
def project_use(s: Session, name: str) -> None:
    """Make a project the default of this portal."""
    s.client.get(f"projects/{name}")
    config.remember(s.profile.server, project=name)
    click.echo(f"Commands now act in {name}.")


@project.command("members")
@with_session
def project_members(s: Session) -> None:
    """List the members of a project."""
    s.show(
        list(s.client.pages(f"projects/{s.project}/members")),
        (
            ("USER", lambda r: r["user"]["username"]),
            ("NAME", lambda r: r["user"]["name"]),
            ("ROLE", lambda r: r["role"]),
        ),
    )


@click.group()
def preset() -> None:
    """Presets: image, size and defaults in one press."""


@preset.command("list")
@with_session
def preset_list(s: Session) -> None:
    """List what can be launched."""
    s.show(
        list(s.client.pages("presets")),
        (
            ("PRESET", lambda r: r["slug"]),
            ("NAME", lambda r: r["name"]),
            ("GPUS", lambda r: r.get("gpus")),
            ("KIND OF GPU", lambda r: r.get("gpu_flavor")),
            ("CPU", lambda r: cpus(r["cpu_milli"])),
            ("MEMORY", lambda r: mib(r["memory_mib"])),
        ),
    )
