"""A large upload through gate and file server, which is killed once; and listing beside uploads.

The source is sparse: reading it costs nothing, and what arrives is written out in full. Sizes:
``BENCH_UPLOAD_MIB`` (the one that is killed), ``BENCH_BESIDE_MIB`` (each of three).
"""

from __future__ import annotations

import filecmp
import os
import signal
import tempfile
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx

from benchmarks.lib import Result, percentile, poll, sized
from tests.support.dataplane import dataplane_environment
from tests.support.portal import Portal

MIB = 1 << 20
LARGE_MIB = int(os.environ.get("BENCH_UPLOAD_MIB", sized("10240", "512")))
BESIDE_MIB = int(os.environ.get("BENCH_BESIDE_MIB", sized("1024", "64")))
UPLOADS, PIECE = 3, 16 * MIB  # as the page sends them
QUIET_S, EVERY_S = sized(10.0, 1.0), 0.1
MARKS_EVERY = 256 * MIB
WITHIN_S, OPENS_WITHIN_S = 3600.0, 120.0
PEOPLE = """
from accounts.models import User; from accounts.principal import Principal
from projects.models import Membership, Project
from volumes.services.create import project_volume_ensure
project = Project.objects.get(slug='demo')
user = User(username='ann', email='ann@example.org'); user.set_unusable_password(); user.save()
Membership.objects.create(project=project, user=user, role='member')
row = project_volume_ensure(principal=Principal(user=user), project=project, cluster_key='local')
answer = str(row.uid)
"""


class Volume:
    """The files of one volume as a program of a person asks for them."""

    def __init__(self, portal: Portal) -> None:
        uid, token = portal.shell(PEOPLE), portal.token("ann")
        self._api = portal.api(token)
        self._session = f"projects/demo/volumes/{uid}/files"
        self._token = token
        self.url = ""
        self.open()

    def open(self) -> None:
        """Open the files, anew when their server ended."""
        said: dict[str, object] = {}

        def is_open() -> bool:
            over = said.get("phase") in {None, "closed", "failed", "stopped"}
            answer = self._api.request("POST" if over else "GET", self._session)
            said.clear()
            said.update(_good(answer).json())
            return bool(said.get("is_open"))

        try:
            poll(is_open, within_s=OPENS_WITHIN_S, every_s=0.5)
            self.url = str(said["url"])
            poll(self._answers, within_s=OPENS_WITHIN_S, every_s=0.2)
        except TimeoutError as error:
            raise TimeoutError(f"the files do not open: {said}") from error

    def _answers(self) -> bool:
        with suppress(httpx.TransportError), self.client() as client:
            return client.get("info").is_success
        return False

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self._token}"}
        return httpx.Client(base_url=f"{self.url}/", headers=headers, timeout=90, trust_env=False)


class Upload:
    """One file in pieces, each with its checksum; goes on after whatever happened to the server."""

    def __init__(self, volume: Volume, source: Path, name: str) -> None:
        self._volume, self._source, self._name = volume, source, name
        self.offset = 0
        self.interrupted = 0

    def run(self) -> None:
        ends = time.monotonic() + WITHIN_S
        while time.monotonic() < ends:
            try:
                with self._volume.client() as client:
                    self._send(client)
            except (httpx.TransportError, httpx.HTTPStatusError):
                self.interrupted += 1
                time.sleep(0.2)
                self._volume.open()
            else:
                return
        message = f"{self._name} did not arrive within {WITHIN_S} s"
        raise TimeoutError(message)

    def _send(self, client: httpx.Client) -> None:
        size = self._source.stat().st_size
        said = {"path": self._name, "size": size, "mark": self._name, "conflict": "refuse"}
        begun = _good(client.post("uploads", json=said)).json()
        self.offset, where = begun["offset"], f"uploads/{begun['id']}"
        with self._source.open("rb") as file:
            while self.offset < size:
                file.seek(self.offset)
                piece = file.read(PIECE)
                check = {"X-Berth-Checksum": f"crc32={zlib.crc32(piece):08x}"}
                query = {"offset": self.offset}
                answer = client.patch(where, params=query, content=piece, headers=check)
                self.offset = _good(answer).json()["offset"]
        assert '"done"' in _good(client.post(f"{where}/finish", json={})).text


def _good(answer: httpx.Response) -> httpx.Response:
    answer.raise_for_status()
    return answer


class Peaks:
    """The most memory that gate and file server had, whichever processes they were."""

    WORDS: tuple[tuple[str, bytes], ...] = (("gate", b"gate"), ("files", b"dataplane.files"))

    def __init__(self, var: Path) -> None:
        self._mark = str(var).encode()
        self.mib = dict.fromkeys(("gate", "files"), 0.0)

    def look(self) -> dict[str, int]:
        """Return the pids by name."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                for name, word in self.WORDS:
                    if b"-m" in words[:3] and word in words and self._is_ours(entry):
                        found[name] = int(entry.name)
                        self.mib[name] = max(self.mib[name], _peak_mib(entry))
        return found

    def _is_ours(self, entry: Path) -> bool:
        return self._mark in (entry / "environ").read_bytes()


def _peak_mib(entry: Path) -> float:
    for line in (entry / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def sparse(folder: Path, mib: int) -> Path:
    """A file with some bytes here and there, so that a piece in the wrong place would show."""
    path = folder / f"source-{mib}"
    with path.open("wb") as file:
        file.truncate(mib * MIB)
        for at in range(0, mib * MIB, MARKS_EVERY):
            file.seek(at)
            file.write(os.urandom(MIB))
    return path


def plain(source: Path, target: Path) -> float:
    """Write the same bytes on the same disk as ``dd conv=fsync`` does; return the seconds."""
    begin = time.perf_counter()
    with source.open("rb") as given, target.open("wb", buffering=0) as taken:
        while piece := given.read(MIB):
            taken.write(piece)
        os.fsync(taken.fileno())
    took = time.perf_counter() - begin
    target.unlink()
    return took


def killed_once(portal: Portal, volume: Volume, source: Path) -> tuple[float, Upload, Peaks]:
    """Upload it; its server is killed when half has arrived."""
    peaks, upload = Peaks(portal.var), Upload(volume, source, "large.bin")
    half, killed = source.stat().st_size // 2, False
    with ThreadPoolExecutor(1) as pool:
        begin = time.perf_counter()
        sending = pool.submit(upload.run)
        while not sending.done():
            pids = peaks.look()
            if not killed and upload.offset >= half:
                os.kill(pids["files"], signal.SIGKILL)
                killed = True
            time.sleep(0.25)
        sending.result()
        took = time.perf_counter() - begin
    assert killed
    assert upload.interrupted
    return took, upload, peaks


def listing(volume: Volume, goes_on: Callable[[], bool]) -> list[float]:
    """Ask for the list again and again; return how long each took, in milliseconds."""
    found = []
    with volume.client() as client:
        while goes_on():
            begin = time.perf_counter()
            _good(client.get("list", params={"path": ""}))
            found.append(1000 * (time.perf_counter() - begin))
            time.sleep(EVERY_S)
    return found


def beside(volume: Volume, source: Path) -> tuple[list[float], list[float]]:
    """How long a list takes: while nothing else is asked, and while three uploads run."""
    ends = time.monotonic() + QUIET_S
    quiet = listing(volume, lambda: time.monotonic() < ends)
    uploads = [Upload(volume, source, f"beside-{number}.bin") for number in range(UPLOADS)]
    with ThreadPoolExecutor(UPLOADS) as pool:
        running = [pool.submit(upload.run) for upload in uploads]
        busy = listing(volume, lambda: not all(one.done() for one in running))
        for one in running:
            one.result()
    return quiet, busy


def run() -> list[Result]:
    dataplane_environment()
    portal = Portal()
    try:
        portal.start()
        volume = Volume(portal)
        with tempfile.TemporaryDirectory(dir=portal.var) as folder:
            return measured(portal, volume, Path(folder))
    finally:
        portal.close()


def measured(portal: Portal, volume: Volume, folder: Path) -> list[Result]:
    quiet, busy = beside(volume, sparse(folder, BESIDE_MIB))
    _removed(volume, [f"beside-{number}.bin" for number in range(UPLOADS)])
    source = sparse(folder, LARGE_MIB)
    written = plain(source, folder / "plain")
    took, upload, peaks = killed_once(portal, volume, source)
    (arrived,) = [p for p in portal.var.rglob("large.bin") if p.is_file()]
    assert filecmp.cmp(source, arrived, shallow=False)
    return [*_latencies(quiet, busy), *_rates(took, written, upload, peaks)]


def _removed(volume: Volume, paths: list[str]) -> None:
    with volume.client() as client:
        _good(client.post("delete", json={"paths": paths, "forever": True}))


def _latencies(quiet: list[float], busy: list[float]) -> list[Result]:
    said = f"{UPLOADS} x {BESIDE_MIB} MiB, {len(busy)} lists; alone {len(quiet)}"
    shares = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    return [
        Result(
            f"list of a folder while {UPLOADS} uploads run, {word}",
            "ms",
            [percentile(busy, share)],
            [percentile(quiet, share)],
            "alone",
            note=said,
        )
        for word, share in shares
    ]


def _rates(took: float, written: float, upload: Upload, peaks: Peaks) -> list[Result]:
    return [
        Result(
            "upload whose file server is killed once",
            "MB/s",
            [LARGE_MIB * MIB / took / 1e6],
            [LARGE_MIB * MIB / written / 1e6],
            "write and fsync of the same size",
            better="higher",
            note=f"{LARGE_MIB} MiB, interruptions: {upload.interrupted}",
        ),
        *(
            Result(f"memory of the {what} while uploading", "MiB", [peaks.mib[name]])
            for name, what in (("gate", "gate"), ("files", "file server"))
        ),
    ]
