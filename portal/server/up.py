"""``berth up``, ``down`` and ``status``: everything for one machine, in the foreground."""

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.server import identity, processes
from portal.server.manager import Manager, bind_all, say
from portal.server.paths import (
    DATA_HERE,
    ROOT,
    UNLIKE,
    Paths,
    Refusal,
    running,
    take_lock,
    write_private,
)
from portal.server.processes import Child, Supervisor, end_with_parent

# Two memory arenas instead of one per thread: the threads wait most of the time.
LEAN = {"MALLOC_ARENA_MAX": "2", "PYTHONUNBUFFERED": "1"}
GO = "BERTH_SUPERVISED_FD"  # set for the unprivileged half: tells root's half to go on
EXPLAINED = 78  # the check before the start has already said what is wrong


def up(*, insecure_http: bool) -> int:
    places = Paths.from_environment()
    if os.geteuid() == 0 and GO not in os.environ:
        user = identity.service_user(places)
        if user is not None:
            return Rooted(places, user, insecure_http=insecure_http).run()
    return portal(places, insecure_http=insecure_http)


# --- the portal, as whoever we are -------------------------------------------------------------


def portal(places: Paths, *, insecure_http: bool) -> int:
    begun = time.monotonic()
    os.umask(0o077)
    places.prepare()
    lock = take_lock(places)
    os.environ["BERTH_VAR"] = str(places.var)
    plan = begun_plan(places, insecure_http=insecure_http)
    sockets, kept = bind_all(plan)
    children = portal_children(places, plan, sockets)
    if is_half := GO in os.environ:
        go = int(os.environ.pop(GO))
        os.write(go, (json.dumps(plan["supervisor"]) + "\n").encode())
        os.close(go)
    elif plan["supervisor"]["wanted"]:
        children.insert(0, keeper(plan["supervisor"], places.log, None))
    standby = [
        processes.gate_standby(places, LEAN, sockets),
        processes.gateway_standby(places, LEAN, sockets["gateway"]),
    ]
    environments = plan["supervisor"]["environments"]
    if not is_half:  # root's half does it where there is one: what runs there must not change it
        standby += processes.environment_standbys(places, environments, places.log)
    manager = Manager(children, logs=places.log, standby=standby)
    manager.when_ready(plan["ports"]["internal"], lambda: announce(plan, begun))
    say("Starting Berth; Ctrl-C ends it, workspaces go on.")
    code = manager.run()
    say("Berth has ended. Workspaces go on; `berth down --workspaces` ends them too.")
    for one in (*sockets.values(), *kept):
        one.close()
    os.close(lock)
    return code


def announce(plan: dict[str, Any], begun: float) -> None:
    say(f"Berth is ready at {plan['public_url']} ({time.monotonic() - begun:.1f} s)")


def begun_plan(places: Paths, *, insecure_http: bool) -> dict[str, Any]:
    """With the secrets that are here, or new ones; where these turn out wrong nothing is left."""
    before = places.secrets.read_text() if places.secrets.exists() else None
    is_new = places.ensure_secrets()
    try:
        return checked_plan(insecure_http=insecure_http, new_secrets=is_new)
    except BaseException:
        if is_new and before is None:
            places.secrets.unlink()
        elif is_new and before is not None:
            write_private(places.secrets, before)
        raise


def checked_plan(*, insecure_http: bool, new_secrets: bool = False) -> dict[str, Any]:
    """Runs what needs Django in a process that ends again, so that this one stays small."""
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "portal.server.preflight", "--plan-fd", str(writer)]
    if insecure_http:
        command.append("--insecure-http")
    if new_secrets:
        command.append("--new-secrets")
    process = subprocess.Popen(command, cwd=ROOT, pass_fds=(writer,), stdin=subprocess.DEVNULL)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    code = process.wait()
    if code == EXPLAINED:
        raise SystemExit(1)
    if code == UNLIKE:
        raise SystemExit(UNLIKE)
    if code or not text:
        message = "The check before the start failed; the lines above say where."
        raise Refusal(message)
    plan: dict[str, Any] = json.loads(text)
    return plan


def portal_children(
    places: Paths, plan: dict[str, Any], sockets: dict[str, socket.socket]
) -> list[Child]:
    fd = {name: one.fileno() for name, one in sockets.items()}
    own = [sys.executable, "-m"]
    proxy = [node(), str(ROOT / "proxy/berth-proxy.mjs"), *plan["proxy_options"]]
    proxy += ["--fd", str(fd["proxy"]), "--api-fd", str(fd["proxy_api"])]
    proxy_env = {"CONFIGPROXY_AUTH_TOKEN": plan["proxy_token"], "NODE_ENV": "production"}
    web_fds = tuple(fd[name] for name in ("web", "internal", "hub") if name in fd)
    web = [*own, "portal.server.web", *map(str, web_fds)]
    worker = [*own, "portal.server.worker"]
    log = places.log
    pair = (fd["proxy"], fd["proxy_api"])
    return [
        Child("proxy", proxy, log / "proxy.log", proxy_env, pair, is_last=True),
        Child("web", web, log / "web.log", LEAN, web_fds),
        Child("worker", worker, log / "worker.log", LEAN, grace_s=15),
    ]


def node() -> str:
    beside = Path(sys.prefix) / "node"  # where the set-up puts a link to the one it chose
    found = os.environ.get("BERTH_NODE") or (str(beside) if beside.exists() else None)
    program = found or shutil.which("node")
    if not program:
        message = "The notebook proxy needs Node 20 or newer: `make run` fetches one."
        raise Refusal(message)
    return program


def keeper(paths: dict[str, str], logs: Path, group: str | None) -> Supervisor:
    Path(paths["socket"]).parent.mkdir(mode=0o700, exist_ok=True)
    return Supervisor(
        "supervisor",
        processes.supervisor_command(paths, group),
        logs / "supervisor.log",
        socket=Path(paths["socket"]),
    )


# --- started as root ---------------------------------------------------------------------------


@dataclass
class Unprivileged(Child):
    """The same program as the user berth; it talks to the terminal itself."""

    user: pwd.struct_passwd | None = None

    def start(self, cwd: Path) -> None:
        if self.user is None:
            raise AssertionError
        self.spawn(
            cwd,
            None,
            pass_fds=tuple(self.sockets),
            user=self.user.pw_uid,
            group=self.user.pw_gid,
            extra_groups=[],
            umask=0o077,
            preexec_fn=end_with_parent,
        )
        self.started_at = time.monotonic()


class Rooted:
    """Root's half: starts the other half as berth, keeps the supervisor, and makes environments
    of model servers that are wanted. Nothing else.
    """

    def __init__(self, places: Paths, user: pwd.struct_passwd, *, insecure_http: bool) -> None:
        self.places = places
        self.user = user
        self.insecure_http = insecure_http

    def run(self) -> int:
        reader, writer = os.pipe()
        command = [sys.executable, "-m", "portal.server", "up"]
        if self.insecure_http:
            command.append("--insecure-http")
        env = {GO: str(writer), "BERTH_VAR": str(self.places.var), "HOME": "/nonexistent"}
        env[DATA_HERE] = self.places.data()
        half = Unprivileged("portal", command, Path(), env, (writer,), 40.0, user=self.user)
        half.start(ROOT)
        os.close(writer)
        with os.fdopen(reader) as file:
            line = file.readline()  # comes when lock, checks and ports are good
        if not line or half.process is None:
            return half.process.wait() if half.process else 1
        paths = json.loads(line)
        try:  # the other half named it
            identity.require_roots(Path(paths["environments"]))
        except Refusal:
            half.stop()
            raise
        children: list[Child] = [half]
        logs = self.places.var / "supervisor"
        if paths["wanted"]:
            children.insert(0, keeper(paths, logs, identity.NAME))
        standby = processes.environment_standbys(self.places, paths["environments"], logs)
        return Manager(children, until=half, standby=standby).run()


PATIENCE_S = 60.0
SHUTDOWN_TIMEOUT_S = 60.0
SILENT_S = 60.0  # the worker makes a turn each second


def down(*, workspaces: bool) -> int:
    places = Paths.from_environment()
    number = running(places)
    if number:
        end(places, number)
    else:
        print(f"Berth does not run on {places.var}.")
    if workspaces:
        end_workspaces(places)
    return 0


def end(places: Paths, number: int) -> None:
    check_whose(places, number)
    try:
        os.kill(number, signal.SIGTERM)
    except PermissionError as error:
        message = f"Berth runs as another user (process {number}); run this as that user or root."
        raise Refusal(message) from error
    except ProcessLookupError:
        return
    deadline = time.monotonic() + PATIENCE_S
    # Until the process itself is over: root's half must not see the supervisor's end before that.
    while running(places) == number or not has_ended(number):
        if time.monotonic() > deadline:
            message = f"Process {number} has not ended after {PATIENCE_S:.0f} s; see var/log."
            raise Refusal(message)
        time.sleep(0.05)
    print("Berth has ended.")


def has_ended(number: int) -> bool:
    try:
        told = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return True
    return told.rpartition(")")[2].split()[0] == "Z"  # whoever started it has not looked yet


def check_whose(places: Paths, number: int) -> None:
    """The portal's user wrote the number: it must not make root end a process that is not his."""
    try:
        owner = Path(f"/proc/{number}").stat().st_uid
    except OSError:
        owner = None
    if number <= 0 or owner not in {None, places.run.stat().st_uid}:
        message = f"{places.lock} names process {number}, which is not Berth's; nothing was ended."
        raise Refusal(message)


def end_workspaces(places: Paths) -> None:
    """Asks the supervisor itself: it takes the processes down and then ends."""
    path = Path(os.environ.get("BERTH_SUPERVISOR_SOCKET") or places.var / "supervisor" / "sock")
    request = {"id": 1, "verb": "shutdown", "workspaces": True}
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(SHUTDOWN_TIMEOUT_S)
        try:
            one.connect(str(path))
        except OSError:
            print("No workspaces run: there is no supervisor.")
            return
        with contextlib.suppress(OSError):
            one.sendall(json.dumps(request).encode() + b"\n")
            while one.recv(65536):  # it ends the connection when it is gone
                pass
    print("All workspaces have been ended.")


def status() -> int:
    places = Paths.from_environment()
    number = running(places)
    if number is None:
        print(f"Berth does not run on {places.var}.")
        return 3
    print(f"Berth runs on {places.var} (process {number}).")
    print(*processes.standby_states(places), sep="\n")
    begun = [places.lock.stat().st_mtime]  # the start of the manager, which comes before a turn
    with contextlib.suppress(FileNotFoundError):
        begun.append(processes.turn_file(places.var).stat().st_mtime)
    idle = time.time() - max(begun)
    if idle > SILENT_S:
        print(
            f"The worker has made no turn for {idle:.0f} s: nothing starts or stops."
            f" See {places.log / 'worker.log'}, and start Berth again."
        )
        return 1
    return 0
