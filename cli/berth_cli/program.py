"""What runs on a cluster, as options of the command line: image, command, ports, place."""

from __future__ import annotations

import re
import shlex
from typing import Any

import click

from berth_cli import completing

_UNITS = {"": 1, "M": 1, "MI": 1, "MIB": 1, "G": 1024, "GI": 1024, "GIB": 1024}
_SIZE = re.compile(r"\A(\d+(?:\.\d+)?)\s*([A-Za-z]*)\Z")
_OPTIONS = (
    click.option(
        "--kind",
        type=click.Choice(["notebook", "container"]),
        help="What opens: a notebook, or ports.",
    ),
    click.option("--image", help="Image that runs."),
    click.option("--command", "command_line", help="Command, quoted as one argument."),
    click.option("--args", "args_line", help="Arguments, quoted as one argument."),
    click.option(
        "--port",
        "ports",
        multiple=True,
        metavar="PORT[:NAME[:private]]",
        help="Port that opens behind the sign-in; private: declared only. May be repeated.",
    ),
    click.option("--no-ports", is_flag=True, help="None of the preset's ports."),
    click.option("--shm", metavar="SIZE", help="Shared memory, such as 512M or 8G."),
    click.option("--cluster", help="Where it runs; chosen by itself if not given."),
    click.option("--pool", help="Part of the cluster."),
    click.option("--network", help="Extra network."),
    click.option(
        "--volume",
        "volumes",
        multiple=True,
        metavar="NAME[:ro]",
        help="Volume besides the home; :ro: only read. Default: the project's own volume.",
        shell_complete=completing.volumes,
    ),
    click.option("--no-volumes", is_flag=True, help="No volume besides the home."),
    click.option(
        "--credential",
        "credentials",
        multiple=True,
        help="Credential put into it.",
        shell_complete=completing.usable_credentials,
    ),
    click.option(
        "--needs",
        "needs",
        multiple=True,
        help="Load that must be done before it asks for GPUs.",
        shell_complete=completing.loads,
    ),
)


def program_options(command: Any) -> Any:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def program_body(said: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the API for what was said."""
    body = {name: said[name] for name in ("kind", "image", "cluster", "pool", "network")}
    for name in ("command", "args"):
        text = said[f"{name}_line"]
        body[name] = None if text is None else _words(name, text)
    body["ports"] = [port_of(text) for text in said["ports"]] or None
    for name in ("volumes", "credentials", "needs"):
        body[name] = list(said[name]) or None
    for name in ("ports", "volumes"):
        if not said[f"no_{name}"]:
            continue
        if said[name]:
            raise click.UsageError(f"Say --{name.removesuffix('s')} or --no-{name}, not both.")
        body[name] = []
    body["shm_mib"] = None if said["shm"] is None else _mib(said["shm"])
    return body


def _words(name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        message = f"a quotation mark is not closed in {text!r}"
        raise click.BadParameter(message, param_hint=f"--{name}") from error


def port_of(text: str) -> dict[str, Any]:
    """Return the port that PORT, PORT:NAME or PORT:NAME:private says."""
    number, name, tail = (*text.split(":"), "", "")[:3]
    if not number.isdecimal() or tail not in {"", "private"} or text.count(":") > 2:  # noqa: PLR2004
        message = f"{text!r} is not PORT, PORT:NAME or PORT:NAME:private"
        raise click.BadParameter(message, param_hint="--port")
    return {"port": int(number), "name": name, "web": tail != "private"}


class Memory(click.ParamType):
    """16G, 512M; a plain number is MiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        del param, ctx
        return value if isinstance(value, int) else _mib(str(value), "--memory")


def _mib(text: str, option: str = "--shm") -> int:
    found = _SIZE.match(text.strip())
    unit = _UNITS.get(found.group(2).upper()) if found else None
    if found is None or unit is None:
        message = f"{text!r} is not a size such as 512M or 8G"
        raise click.BadParameter(message, param_hint=option)
    return round(float(found.group(1)) * unit)
