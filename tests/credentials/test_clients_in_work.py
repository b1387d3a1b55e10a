"""The unmodified clients inside a notebook that runs: a portal, its supervisor and a kernel.

What ``test_real_clients.py`` gives a program by hand comes here as people get it: stored by the
API, attached to a workspace, embedded by the driver. Nothing names a key, a project or an address.
"""

from __future__ import annotations

import json
import secrets
import shlex
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.sync.client import connect

from tests.hubapi.live.fleet import execute
from tests.support.dataplane import settings_open_to
from tests.support.locked_environments import MissingError
from tests.support.portal import Portal, environments
from tests.support.store_certificates import Authority
from tests.support.store_front import Front
from tests.support.stores import GoogleStore, RcloneS3

pytestmark = [
    pytest.mark.real,
    pytest.mark.long(
        "workspaces for two clients; the clients themselves: credentials/test_real_clients.py"
    ),
]

WITHIN_S = 120.0


@pytest.fixture(scope="module")
def portal(google_store: GoogleStore, rclone_s3: RcloneS3) -> Iterator[Portal]:
    """Google's place for trials is reached by https, which gsutil insists on."""
    if not (environments() / "jupyterlab").exists():
        pytest.skip("the JupyterLab environment is not built (make run or make test builds it)")
    running = Portal(settings_open_to(rclone_s3.outbound()))
    authority = Authority(running.var)
    authority.certificate.chmod(0o644)
    port = urlsplit(google_store.url).port
    assert port
    with Front(port, tls=authority.context()) as front:
        running.env["BERTH_GCS_ENDPOINT"] = front.url
        running.env["BERTH_GCS_TOKEN_URI"] = google_store.outbound()["gcs_token_uri"]
        try:
            running.start()
            yield running
        finally:
            running.close()


class Kernel:
    """A kernel of a running JupyterLab, through the proxy with the token that Berth itself uses."""

    def __init__(self, portal: Portal, row: dict[str, Any]) -> None:
        token = portal.shell(
            f"from hubapi.services import service_token; answer = service_token({row['uid']!r})"
        )
        self._url = httpx.URL(row["status"]["url"])
        self._headers = {"Authorization": f"token {token}"}
        # the system's resolver knows no *.localhost: same connection, the name in the Host header
        answer = httpx.post(
            self._url.join("api/kernels").copy_with(host="127.0.0.1"),
            headers={"Host": self._url.netloc.decode(), **self._headers},
            json={"name": "python3"},
            timeout=WITHIN_S,
        )
        assert answer.status_code == 201, answer.text
        self._kernel = answer.json()["id"]

    def __call__(self, *words: str | Path, code: int = 0) -> str:
        """Run a program as a cell with ``!`` does; return what it printed."""
        line = shlex.join(map(str, words))
        said = json.loads(
            self._value(
                "import json, subprocess as s\n"
                f"d = s.run({line!r}, shell=True, capture_output=True, text=True)\n"
                "print(json.dumps([d.returncode, d.stdout, d.stderr]))"
            )
        )
        assert said[0] == code, (line, said)
        return str(said[1])

    def _value(self, code: str) -> str:
        host, ends, printed = self._url.netloc.decode(), time.monotonic() + WITHIN_S, ""
        path = f"{self._url.path}api/kernels/{self._kernel}/channels"
        with connect(
            f"ws://{host}{path}?session_id={secrets.token_hex(8)}",
            sock=socket.create_connection(("127.0.0.1", self._url.port or 80), timeout=60),
            additional_headers=self._headers,
            open_timeout=60,
        ) as ws:
            execute(ws, code)
            while time.monotonic() < ends:
                message = json.loads(ws.recv(timeout=WITHIN_S))
                content = message["content"]
                if message["msg_type"] == "stream" and content["name"] == "stdout":
                    printed += content["text"]
                if message["msg_type"] == "execute_reply":
                    assert content["status"] == "ok", content
                if printed.endswith("\n"):
                    return printed
        raise AssertionError(f"the kernel printed no line, only {printed!r}")


@pytest.fixture(scope="module")
def run(portal: Portal, google_store: GoogleStore, rclone_s3: RcloneS3) -> Iterator[Kernel]:
    """Two keys, a workspace that was given both, and a kernel in it."""
    api = portal.api(portal.token("admin"))
    document = json.dumps(google_store.account.document())
    given = [
        {"kind": "gcs", "name": "bucket-key", "key": document},
        {
            "kind": "s3-compatible",
            "name": "lake-key",
            "endpoint": rclone_s3.url,
            "access_key": rclone_s3.keys.access,
            "secret_key": rclone_s3.keys.secret,
        },
    ]
    for said in given:
        answer = api.post("projects/demo/credentials", json=said)
        assert answer.status_code == 201, answer.text
    names = [said["name"] for said in given]
    made = api.post("projects/demo/workspaces", json={"credentials": names})
    assert made.status_code == 202, made.text
    path = f"projects/demo/workspaces/{made.json()['id']}"
    ends = time.monotonic() + WITHIN_S
    while time.monotonic() < ends:
        row = api.get(path).json()
        assert row["status"]["phase"] != "failed", row["status"]
        if row["status"]["phase"] == "running":
            yield Kernel(portal, row)
            return
        time.sleep(0.2)
    raise AssertionError("the workspace did not start")


@pytest.fixture(scope="module")
def gsutil() -> Path:
    from tests.support.store_programs import gsutil

    try:
        return gsutil()
    except MissingError as why:
        pytest.skip(f"no gsutil: {why}")


def test_gsutil_lists_and_copies_both_ways(
    portal: Portal, google_store: GoogleStore, run: Kernel, gsutil: Path
) -> None:
    bucket = google_store.make_bucket("work-in-a-notebook")
    # whom a program believes is a matter of its image: the only thing that is said here
    command = (gsutil, "-o", f"Boto:ca_certificates_file={portal.var / 'ca.pem'}")
    run("dd", "if=/dev/urandom", "of=a.bin", "bs=1M", "count=9")  # more than it sends in one piece
    run(*command, "cp", "a.bin", f"gs://{bucket}/dir/a.bin")
    assert run(*command, "ls", f"gs://{bucket}/dir/").split() == [f"gs://{bucket}/dir/a.bin"]
    run(*command, "cp", f"gs://{bucket}/dir/a.bin", "b.bin")
    run("cmp", "a.bin", "b.bin")
    assert f"gs://{bucket}/" in run(*command, "ls").split()  # of the key's project
    assert run("find", ".", "-name", "*gsutil*", "-o", "-name", ".boto").split() == []
    # nothing of the key lies in the home; the kernel's history holds what is run here
    run("grep", "-rlF", "--exclude-dir=.ipython", "PRIVATE KEY", ".", code=1)


def test_aws_and_rclone_list_and_copy_both_ways(run: Kernel, rclone_s3: RcloneS3) -> None:
    from tests.support.store_programs import stores_bin

    aws, rclone = stores_bin() / "aws", stores_bin() / "rclone"
    bucket = rclone_s3.make_bucket(f"work-{secrets.token_hex(4)}")
    time.sleep(1.2)  # the store looks at its folders once a second
    run("dd", "if=/dev/urandom", "of=c.bin", "bs=1M", "count=9")
    run(aws, "s3", "cp", "c.bin", f"s3://{bucket}/dir/c.bin")
    assert "c.bin" in run(aws, "s3", "ls", f"s3://{bucket}/dir/")
    run(rclone, "copyto", f"lake-key:{bucket}/dir/c.bin", "d.bin")
    run("cmp", "c.bin", "d.bin")
    run(rclone, "copyto", "d.bin", f"lake-key:{bucket}/e.bin")
    run(aws, "s3", "cp", f"s3://{bucket}/e.bin", "e.bin")
    run("cmp", "c.bin", "e.bin")
