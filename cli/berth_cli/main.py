"""``berth``: everything the pages do, from a terminal."""

from __future__ import annotations

import importlib.util
import io
import sys

import click

from berth_cli import __version__
from berth_cli.client import EXIT_ERROR, ApiError
from berth_cli.context import Session, general_options
from berth_cli.lazy import LazyGroup
from berth_cli.output import printable, refused

SERVER_VERBS = (
    *("up", "down", "status", "backup", "restore", "restored", "anew", "orphans"),
    *("admin", "keys"),
)


COMMANDS = {
    **{name: f"accounts:{name}" for name in ("login", "logout", "token", "whoami")},
    **{name: f"projects:{name}" for name in ("preset", "project")},
    "ai-platform": "ai_platform:ai_platform",
    "apply": "documents:apply",
    "budgets": "budgets:budgets",
    "completion": "completing:completion",
    "credentials": "credentials:credentials",
    "endpoint": "endpoints:endpoint",
    "experiment": "experiments:experiment",
    "fleet": "fleet:fleet",
    "idle-policies": "patrol:policies",
    "images": "images:images",
    "job": "jobs:job",
    "kube-config": "kube:kube_config",
    "kube-credential": "kube:kube_credential",
    "loads": "loads:loads",
    "model": "models:model",
    "patrol": "patrol:patrol",
    "perftest": "perftests:perftest",
    "queues": "queues:queues",
    "usage": "usage:usage",
    "volumes": "volumes:volumes",
    "webhooks": "webhooks:webhooks",
    "workspace": "workspaces:workspace",
}


@click.group(
    cls=LazyGroup,
    elsewhere=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="berth")
@general_options
@click.pass_context
def cli(ctx: click.Context, server: str | None, project: str | None, output: str) -> None:
    """Launch and manage work on a shared GPU cluster.

    \b
    Exit codes: 0 done, 1 error, 2 wrong usage or input, 3 not signed in,
    4 not there or not allowed, 5 conflict or limit reached, 6 timed out waiting,
    7 portal unreachable.
    """  # noqa: D301 - a mark of click: what follows keeps its lines
    ctx.obj = Session(server_option=server, project_option=project, fmt=output)


def _server_verb(name: str) -> click.Command:
    @click.command(
        name,
        help=f"Server: see `berth {name} --help`.",
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
        add_help_option=False,
    )
    @click.argument("args", nargs=-1, type=click.UNPROCESSED)
    def run(args: tuple[str, ...]) -> None:
        from portal.server.main import main as server_main

        try:
            code = server_main([name, *args])
        except BrokenPipeError:
            raise
        except OSError:  # of the portal's own work an operator needs all that is known
            import traceback

            traceback.print_exc()
            code = EXIT_ERROR
        sys.exit(code)

    return run


def _server_installed() -> bool:
    try:
        return importlib.util.find_spec("portal.server.main") is not None
    except ImportError:
        return False


if _server_installed():
    for verb in SERVER_VERBS:
        cli.add_command(_server_verb(verb))


def print_utf_8() -> None:
    """Names are of every language, whatever a console says that it can show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def kubectl_main() -> None:
    """Entry point of ``kubectl ai-platform …``: the same commands below that word."""
    sys.argv.insert(1, "ai-platform")
    main()


def main() -> None:
    """Entry point: errors of the portal become one sentence and an exit code."""
    print_utf_8()
    try:
        code = cli.main(standalone_mode=False)
        if isinstance(code, int) and code:  # what a command ended with, as `workspace exec` does
            sys.exit(code)
    except click.exceptions.Abort:
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as leaving:
        sys.exit(leaving.exit_code)
    except ApiError as error:
        click.echo(f"Error: {printable(str(error))}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # a folder that is missing, a disk that is full
        click.echo(f"Error: {refused(error)}", err=True)
        sys.exit(EXIT_ERROR)
