"""A real HDFS on loopback: one namenode and one datanode of Hadoop, and Hadoop's own client.

    with Hdfs() as store:
        store.put("/data/a.txt", b"body")
        plan |= {"store": store.place("", "data/"), "outbound": store.outbound()}

Names are taken as they are given (simple authentication). Tokens of the namenode's own can be had,
and without Kerberos none is judged: who brings one is “dr.who”.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from tests.support.locked_environments import MissingError
from tests.support.portal import ROOT
from tests.support.ports import free_port
from tests.support.store_programs import Process
from tests.support.stores import LOOPBACK, Store

HERE = Path(__file__).parent / "hadoop"
GET = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"
SERVERS = "org.apache.hadoop.hdfs.server"
JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
WITHIN_S = 240.0
PERSON = "hdfs"  # who started the namenode may do everything


@functools.cache
def jars() -> Path:
    """The folder with Hadoop's jars: got once by Maven, and what they are compared with."""
    for name in ("java", "mvn"):
        if not shutil.which(name):
            raise MissingError(f"there is no {name}, which a real HDFS needs")
    sums = (HERE / "SHA256SUMS").read_text()
    kept = ROOT / "var" / f"hadoop-{hashlib.sha256(sums.encode()).hexdigest()[:12]}"
    if not (kept / "whole").exists():
        getting = ("mvn", "-B", "-q", "-f", HERE / "pom.xml", GET, f"-DoutputDirectory={kept}")
        got = subprocess.run(getting, capture_output=True, text=True, timeout=900, check=False)
        if got.returncode:
            raise MissingError(f"Maven brings no Hadoop: {got.stdout[-300:]}")
        for line in sums.splitlines():
            wanted, name = line.split()
            if hashlib.sha256((kept / name).read_bytes()).hexdigest() != wanted:
                raise RuntimeError(f"{name} is not what it was")
        (kept / "whole").touch()
    return kept


class Hdfs(Store):
    kind = "hdfs"

    def __init__(self, *, folder: Path | None = None, **settings: str) -> None:
        super().__init__(folder=folder)
        self.jars = jars()
        self.rpc, self.datanode, *others = (free_port() for _ in range(4))
        at = f"{LOOPBACK}:"
        self._settings = {
            "hadoop.tmp.dir": str(self.data),
            "fs.defaultFS": f"hdfs://{at}{self.rpc}",
            "dfs.namenode.http-address": f"{at}{self.port}",
            "dfs.datanode.http.address": f"{at}{self.datanode}",
            "dfs.datanode.address": f"{at}{others[0]}",
            "dfs.datanode.ipc.address": f"{at}{others[1]}",
            "dfs.datanode.hostname": "localhost",  # what the namenode sends to
            "dfs.replication": "1",
            "dfs.ls.limit": "10",  # names a page
            "dfs.namenode.fs-limits.min-block-size": "4096",
            "dfs.namenode.delegation.token.always-use": "true",  # else there are none to be had
            "dfs.namenode.safemode.extension": "0",
            **settings,
        }

    def start(self) -> None:
        rows = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in self._settings.items()
        )
        for name in ("core-site.xml", "hdfs-site.xml"):
            (self.folder / name).write_text(f"<configuration>{rows}</configuration>")
        self.java(f"{SERVERS}.namenode.NameNode", "-format", "-nonInteractive")
        self._begin("namenode.NameNode", self.port)
        self._begin("datanode.DataNode", self.datanode)
        self._wait()

    def _begin(self, name: str, port: int) -> None:
        command = self._command(f"{SERVERS}.{name}")
        env = {"HADOOP_USER_NAME": PERSON}
        self._processes.append(Process(command, self.folder, port, env, within_s=WITHIN_S))

    def _command(self, *words: str) -> tuple[str, ...]:
        return ("java", *JAVA, "-cp", f"{self.folder}:{self.jars}/*", *words)

    def _wait(self) -> None:
        """The namenode answers before it knows a datanode."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            try:
                return self.put("/ready", b"ready")
            except (HTTPError, URLError, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.3)

    def java(self, *words: str) -> str:
        """Run a program of Hadoop's: its own client is ``org.apache.hadoop.fs.FsShell``."""
        done = subprocess.run(
            self._command(*words),
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "HADOOP_USER_NAME": PERSON},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def shell(self, *words: str) -> str:
        return self.java("org.apache.hadoop.fs.FsShell", *words)

    def end_datanode(self) -> None:
        self._processes.pop().end()

    def begin_datanode(self) -> None:
        self._begin("datanode.DataNode", self.datanode)

    # --- WebHDFS ----------------------------------------------------------------------------

    def call(self, method: str, path: str, act: str, body: bytes | None = None, **said: Any) -> Any:
        """Ask the namenode; what it sends elsewhere goes there."""
        query = "".join(f"&{name}={quote(str(value))}" for name, value in said.items())
        url = f"{self.url}/webhdfs/v1{quote(path)}?op={act}&user.name={PERSON}{query}"
        if body is not None:
            url = json.loads(_sent(method, f"{url}&noredirect=true"))["Location"]
        text = _sent(method, url, body)
        return json.loads(text) if text else None

    def put(self, path: str, body: bytes, **said: Any) -> None:
        self.call("PUT", path, "CREATE", body, overwrite="true", **said)

    def token(self) -> str:
        return str(self.call("GET", "/", "GETDELEGATIONTOKEN")["Token"]["urlString"])

    def place(self, bucket: str, prefix: str = "", **others: Any) -> dict[str, Any]:
        del bucket
        return {
            "kind": self.kind,
            "bucket": "",
            "prefix": prefix,
            "objects": None,
            "endpoint": self.url,
            "user": PERSON,
            **others,
        }

    def outbound(self, at: str = "", *, datanode: bool = True) -> dict[str, Any]:
        """``datanode``: whether the operator opened its port too."""
        found = super().outbound(at)
        if datanode:
            found["allow"].append(f"127.0.0.0/8:{self.datanode}")
        return found


def _sent(method: str, url: str, body: bytes | None = None) -> bytes:
    kind = {"Content-Type": "application/octet-stream"}
    whole = quote(url, safe="%/:?&=+;,#@!$'()*[]~")  # in JSON it is not quoted
    request = Request(whole, data=body, method=method, headers=kind)
    with urlopen(request, timeout=120) as answer:
        return bytes(answer.read())


def begun() -> Hdfs:
    """One that can run here, not yet started; else the test is skipped with the reason."""
    try:
        jars()
    except MissingError as why:
        pytest.skip(f"no HDFS: {why}")
    return Hdfs()
