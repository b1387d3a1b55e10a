"""Images as the OCI specification describes them: layers, configuration, manifest, and the push."""

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx

from tools.setup_shell import SetupError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
EPOCH = "1970-01-01T00:00:00Z"
CHUNK = 1 << 20


@dataclass(frozen=True)
class Layer:
    path: Path  # <folder>/layer.tar.gz
    digest: str
    unpacked: str  # digest of the tar inside
    size: int

    def described(self) -> dict[str, Any]:
        return {"mediaType": LAYER, "digest": self.digest, "size": self.size}


@dataclass(frozen=True)
class Image:
    name: str
    tag: str
    layers: list[Layer]
    command: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    user: str = ""
    folder: str = "/"
    ports: tuple[int, ...] = ()

    def configuration(self) -> bytes:
        config = {
            "Env": [f"{name}={value}" for name, value in self.environment.items()],
            "Entrypoint": self.command,
            "Cmd": self.arguments,
            "User": self.user,
            "WorkingDir": self.folder,
            "ExposedPorts": {f"{port}/tcp": {} for port in self.ports},
        }
        content = {
            "created": EPOCH,
            "architecture": "amd64",
            "os": "linux",
            "config": {name: value for name, value in config.items() if value},
            "rootfs": {"type": "layers", "diff_ids": [layer.unpacked for layer in self.layers]},
            "history": [{"created": EPOCH, "created_by": "devcluster"} for _ in self.layers],
        }
        return json.dumps(content).encode()

    def manifest(self) -> bytes:
        config = self.configuration()
        content = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": sha256(config), "size": len(config)},
            "layers": [layer.described() for layer in self.layers],
        }
        return json.dumps(content).encode()

    @property
    def digest(self) -> str:
        return sha256(self.manifest())


def sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


# --- Layers ---------------------------------------------------------------------------------------


class Counting(io.RawIOBase):
    """Writes on, and knows digest and size of what went through."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out, self.total, self.size = out, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.total.update(content)
        self.size += len(content)
        return self.out.write(content)


def write_layer(folder: Path, chunks: Iterable[bytes]) -> Layer:
    """Packs a tar stream; ``folder`` holds the layer and what is known of it."""
    folder.mkdir(parents=True, exist_ok=True)
    path, inner = folder / "layer.tar.gz", hashlib.sha256()
    with path.open("wb") as file:
        counted = Counting(file)
        with gzip.GzipFile(fileobj=counted, mode="wb", compresslevel=1, mtime=0) as packed:
            for chunk in chunks:
                inner.update(chunk)
                packed.write(chunk)
    digest, unpacked = f"sha256:{counted.total.hexdigest()}", f"sha256:{inner.hexdigest()}"
    facts = {"digest": digest, "unpacked": unpacked, "size": counted.size}
    (folder / "layer.json").write_text(json.dumps(facts))
    return Layer(path, digest, unpacked, counted.size)


def read_layer(folder: Path) -> Layer | None:
    try:
        return Layer(folder / "layer.tar.gz", **json.loads((folder / "layer.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def folder_as_tar(root: Path, *parts: str) -> Iterator[bytes]:
    """The same bytes for the same files, whoever packs them when."""
    same = ["--sort=name", "--mtime=@0", "--numeric-owner", "--xattrs", "--one-file-system"]
    command = ["tar", *same, "-C", str(root), "-cf", "-", *(parts or (".",))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        stream = process.stdout
        while stream and (chunk := stream.read(CHUNK)):
            yield chunk
    if process.returncode:
        raise SetupError(f"tar could not pack {root} (code {process.returncode}).")


def files_as_tar(files: dict[str, Path | bytes]) -> Iterator[bytes]:
    """A layer of single files; the path in the image says where each goes, all may run them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, source in files.items():
            content = source if isinstance(source, bytes) else source.read_bytes()
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.mode, entry.size = 0o755, len(content)
            tar.addfile(entry, io.BytesIO(content))
    yield out.getvalue()


def unpack(layer: Layer, into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    tar = shutil.which("tar") or "tar"
    done = subprocess.run(
        [tar, "--numeric-owner", "--xattrs", "-xpzf", layer.path, "-C", into],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SetupError(f"{layer.path} could not be unpacked: {done.stderr[-300:]}")


# --- Push -----------------------------------------------------------------------------------------


def push(image: Image, registry: str) -> str:
    """Uploads what the registry lacks; answers the digest of the manifest."""
    with httpx.Client(base_url=registry, timeout=300, trust_env=False) as http:
        for layer in image.layers:
            push_blob(http, image.name, layer.digest, layer.path)
        config = image.configuration()
        push_blob(http, image.name, sha256(config), config)
        headers = {"content-type": MANIFEST}
        path = f"/v2/{image.name}/manifests/{image.tag}"
        answer = http.put(path, content=image.manifest(), headers=headers)
        if answer.is_error:
            raise SetupError(f"The registry refused {image.name}: {answer.text[:300]}")
    return image.digest


def push_blob(http: httpx.Client, name: str, digest: str, source: Path | bytes) -> None:
    if http.head(f"/v2/{name}/blobs/{digest}").status_code == httpx.codes.OK:
        return
    place = http.post(f"/v2/{name}/blobs/uploads/").headers["location"]
    content = source if isinstance(source, bytes) else chunks_of(source)
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    joint = "&" if "?" in place else "?"
    answer = http.put(
        f"{place}{joint}digest={digest}",
        content=content,
        headers={"content-type": "application/octet-stream", "content-length": str(size)},
    )
    if answer.is_error:
        raise SetupError(f"The registry refused a part of {name}: {answer.text[:300]}")


def chunks_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk
