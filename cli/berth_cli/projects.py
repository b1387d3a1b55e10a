"""Projects and presets."""

from __future__ import annotations

from typing import Any

import click

from berth_cli import completing, config
from berth_cli.context import options, session
from berth_cli.output import cpus, emit, mib

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
@options
@click.pass_context
def project_list(ctx: click.Context) -> None:
    """List your projects."""
    s = session(ctx)
    emit(list(s.client.pages("projects")), fmt=s.fmt, columns=_COLUMNS)


@project.command("show")
@click.argument("name", required=False, shell_complete=completing.projects)
@options
@click.pass_context
def project_show(ctx: click.Context, name: str | None) -> None:
    """Show one project."""
    s = session(ctx)
    emit(s.client.get(f"projects/{name or s.project}"), fmt=s.fmt, columns=_COLUMNS)


@project.command("create")
@click.argument("name")
@click.option("--description", default="", help="What it is for.")
@options
@click.pass_context
def project_create(ctx: click.Context, name: str, description: str) -> None:
    """Make a project; you become its owner."""
    s = session(ctx)
    made = s.client.post("projects", {"name": name, "description": description})
    emit(made, fmt=s.fmt, columns=_COLUMNS)


@project.command("use")
@click.argument("name", shell_complete=completing.projects)
@options
@click.pass_context
def project_use(ctx: click.Context, name: str) -> None:
    """Make a project the default of this portal."""
    s = session(ctx)
    s.client.get(f"projects/{name}")
    config.remember(s.profile.server, project=name)
    click.echo(f"Commands now act in {name}.")


@project.command("members")
@options
@click.pass_context
def project_members(ctx: click.Context) -> None:
    """List the members of a project."""
    s = session(ctx)
    rows = list(s.client.pages(f"projects/{s.project}/members"))
    emit(
        rows,
        fmt=s.fmt,
        columns=(
            ("USER", lambda r: r["user"]["username"]),
            ("NAME", lambda r: r["user"]["name"]),
            ("ROLE", lambda r: r["role"]),
        ),
    )


@click.group()
def preset() -> None:
    """Presets: image, size and defaults in one press."""


@preset.command("list")
@options
@click.pass_context
def preset_list(ctx: click.Context) -> None:
    """List what can be launched."""
    s = session(ctx)
    emit(
        list(s.client.pages("presets")),
        fmt=s.fmt,
        columns=(
            ("PRESET", lambda r: r["slug"]),
            ("NAME", lambda r: r["name"]),
            ("GPUS", lambda r: r.get("gpus")),
            ("KIND OF GPU", lambda r: r.get("gpu_flavor")),
            ("CPU", lambda r: cpus(r["cpu_milli"])),
            ("MEMORY", lambda r: mib(r["memory_mib"])),
        ),
    )
