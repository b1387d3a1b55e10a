"""TensorBoard behind the sign-in of workspaces: one process, one port, no other way in.

    tensorboard.py TITLE TEXT FOLDER…

Each folder lies below the volumes; several are shown beside each other. Title and text are said
while nothing is written there that TensorBoard reads. It needs jupyterhub and tensorboard, which
an image may lack, and imports nothing of Berth.
"""

import asyncio
import html
import json
import os
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, List
from urllib.parse import urlsplit

LACKS = 69  # its exit code where the image has no TensorBoard
THREADS = 8
MOST_LOOKED_AT = 50_000  # files and folders, until an event file is found
TELLS_EVERY_S = 60.0
PREFIX = os.environ["JUPYTERHUB_SERVICE_PREFIX"]

try:
    from jupyterhub.services.auth import HubOAuth, HubOAuthCallbackHandler, HubOAuthenticated
    from tensorboard import default, program
    from tornado import web
    from tornado.wsgi import WSGIContainer
except ImportError as problem:
    print(f"berth: {problem}. TensorBoard needs tensorboard and jupyterhub.", flush=True)
    sys.exit(LACKS)

pool = ThreadPoolExecutor(THREADS)


def laid_out(folders: List[str]) -> str:
    """Return the one folder that is shown: the only one, or one of links to each."""
    there = [Path(os.environ["BERTH_VOLUMES"]) / folder for folder in folders]
    if len(there) == 1:
        return str(there[0])
    top = Path(tempfile.mkdtemp(prefix="runs-"))
    for folder in there:
        link = top.joinpath(*folder.parts[-2:])  # as a run is known: its job, and its number
        while os.path.lexists(link):
            link = link.with_name(link.name + "+")
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(folder)
    return str(top)


def has_events(top: str) -> bool:
    """Whether anything was written that TensorBoard reads."""
    looked = 0
    for _folder, folders, names in os.walk(top, followlinks=True):
        if any("tfevents" in name for name in names):
            return True
        looked += len(names) + len(folders)
        if looked > MOST_LOOKED_AT:
            return True  # its own page says that there is nothing
    return False


def unframed(app: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same application, whose pages nobody may frame."""
    rule = ("Content-Security-Policy", "frame-ancestors 'none'")  # beside its own

    def served(environ: Any, start_response: Any) -> Any:
        def begin(status: str, headers: Any, *rest: Any) -> Any:
            return start_response(status, [*headers, rule], *rest)

        return app(environ, begin)

    return served


class Use:
    """Tells the portal that somebody looks, at most once a minute: idle workspaces are stopped."""

    def __init__(self) -> None:
        self.told_at = 0.0

    def note(self) -> None:
        if time.monotonic() - self.told_at > TELLS_EVERY_S:
            self.told_at = time.monotonic()
            pool.submit(self._tell)

    def _tell(self) -> None:
        at = datetime.now(timezone.utc).isoformat()
        told = {"last_activity": at}
        name = os.environ["JUPYTERHUB_SERVER_NAME"]
        request = urllib.request.Request(
            os.environ["JUPYTERHUB_ACTIVITY_URL"],
            json.dumps({"servers": {name: told}, **told}).encode(),
            {
                "Authorization": "token " + os.environ["JUPYTERHUB_API_TOKEN"],
                "Content-Type": "application/json",
            },
        )
        try:
            urllib.request.urlopen(request, timeout=10).close()
        except OSError as problem:
            print(f"berth: its use was not told: {problem}", flush=True)


class Answer(web.RequestHandler):
    """What the portal asks of every workspace; tells nothing of anybody's."""

    def get(self, what: str) -> None:
        self.finish(json.dumps([] if what else {"version": "tensorboard"}))


class Page(HubOAuthenticated, web.FallbackHandler):
    """TensorBoard, for whom the portal lets in."""

    def initialize(self, fallback: Any, use: Use, top: str, empty: str) -> None:
        super().initialize(fallback)
        self.use, self.top, self.empty = use, top, empty

    @web.authenticated
    async def prepare(self) -> None:
        self.use.note()
        if self.request.path == PREFIX:
            loop = asyncio.get_running_loop()
            if not await loop.run_in_executor(pool, has_events, self.top):
                self.finish(self.empty)
                return
        super().prepare()


class Server(program.TensorBoardServer):
    """How TensorBoard is served: instead of by its own server, which knows nobody."""

    empty = ""

    def __init__(self, app: Callable[..., Any], flags: Any) -> None:
        self.app, self.top = unframed(app), flags.logdir

    def get_url(self) -> str:
        return os.environ["JUPYTERHUB_SERVICE_URL"]

    def print_serving_message(self) -> None:
        print(f"berth: TensorBoard shows {self.top}", flush=True)

    def serve_forever(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        HubOAuth.instance(cache_max_age=10)
        its = {
            "fallback": WSGIContainer(self.app, pool),
            "use": Use(),
            "top": self.top,
            "empty": self.empty,
        }
        application = web.Application(
            [
                (PREFIX + "oauth_callback", HubOAuthCallbackHandler),
                (PREFIX + "api(?:/(kernels|terminals))?", Answer),
                (".*", Page, its),
            ],
            cookie_secret=os.urandom(32),
            disable_check_xsrf=True,  # nothing can be changed, and what is read stays on its host
        )
        bind = urlsplit(self.get_url())
        application.listen(bind.port, bind.hostname)
        await asyncio.Event().wait()


def main(title: str, text: str, *folders: str) -> None:
    title, text = html.escape(title), html.escape(text)
    Server.empty = (
        '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="5">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" '
        f'content="light dark"><title>{title}</title><body style="font:16px/1.5 system-ui;'
        f'max-width:36rem;margin:20vh auto;padding:0 1rem"><h1 style="font-size:1.4rem">{title}'
        f"</h1><p>{text}</p>"
    )
    board = program.TensorBoard(plugins=default.get_plugins(), server_class=Server)
    top = laid_out(list(folders))
    # Its faster reader would be a server of its own, with a port that anybody could ask.
    words = ["--logdir", top, "--load_fast", "false", "--path_prefix", PREFIX.rstrip("/")]
    board.configure(argv=["tensorboard", *words])
    sys.exit(board.main())


if __name__ == "__main__":
    main(*sys.argv[1:])
