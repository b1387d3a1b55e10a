"""Getting uv, which installs everything else.

A machine may have uv; or pip; or a Python whose pip was taken out (Debian) but whose package
manager can hand it over; or none of these but a package index that was configured for pip.  No
address of an index stands here: each way asks what the machine itself is set up to ask.
"""

import configparser
import hashlib
import html.parser
import importlib.util
import os
import platform
import re
import shutil
import ssl
import stat
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.setup_shell import SetupError, run, step, works

LOCK = Path(__file__).resolve().parent.parent / "requirements/uv.txt"
LEAST = (0, 5)
TIMEOUT_S = 60


def find_uv(folder: Path) -> Path:
    version, _ = pinned(LOCK.read_text())
    own = folder / f"uv-{version}" / "uv"
    if works([own, "--version"]):
        return own
    found = shutil.which("uv")
    if found and new_enough(found):
        return Path(found)
    return fetched_uv(folder)


def fetched_uv(folder: Path) -> Path:
    """The pinned one, whatever else there is: a file that also works inside an image."""
    version, hashes = pinned(LOCK.read_text())
    own = folder / f"uv-{version}" / "uv"
    if works([own, "--version"]):
        return own
    with step(f"Fetching the installer uv {version}"):
        own.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=own.parent) as work:
            wheel = fetch(Path(work), version, hashes)
            fresh = extract(wheel, Path(work))
            fresh.replace(own)
    return own


def pinned(lock: str) -> tuple[str, set[str]]:
    version = re.search(r"^uv==([0-9.]+)", lock, re.MULTILINE)
    hashes = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", lock))
    if not version or not hashes:
        raise SetupError("requirements/uv.txt does not pin uv.")
    return version[1], hashes


def new_enough(uv: str) -> bool:
    try:
        done = subprocess.run([uv, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    number = re.match(r"uv (\d+)\.(\d+)", done.stdout)
    if done.returncode or number is None:
        return False
    return (int(number[1]), int(number[2])) >= LEAST


def fetch(work: Path, version: str, hashes: set[str]) -> Path:
    """The wheel, checked against the lock, by the first way that this machine offers."""
    tried = []
    for way, name in WAYS:
        try:
            wheel = way(work, version, hashes)
        except (SetupError, OSError, ValueError) as error:
            tried.append(f"  {name}: {error}")
            continue
        if wheel and hashlib.sha256(wheel.read_bytes()).hexdigest() in hashes:
            return wheel
        tried.append(f"  {name}: " + ("not what the lock file says" if wheel else "not here"))
    raise SetupError(
        "The installer uv could not be fetched:\n" + "\n".join(tried) + "\n"
        "Install pip (Debian, Ubuntu: apt-get install python3-pip) or uv, or set PIP_INDEX_URL to"
        " your package index, and start again."
    )


def extract(wheel: Path, work: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".data/scripts/uv"))
        target = work / "uv"
        target.write_bytes(archive.read(name))
    target.chmod(target.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return target


# --- By pip, wherever there is one ----------------------------------------------------------------


def by_pip(work: Path, version: str, hashes: set[str]) -> Path | None:
    del version, hashes  # pip reads them from the lock file itself
    pip = pip_command(work)
    if pip is None:
        return None
    folder = work / "wheel"
    command = [*pip, "download", "-q", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    run([*command, "-r", LOCK, "-d", folder], env={"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return next(folder.glob("uv-*.whl"), None)


def pip_command(work: Path) -> list[str | Path] | None:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    wheel = bundled_pip() or debian_pip(work)
    return [sys.executable, wheel / "pip"] if wheel else None  # a wheel of pip runs as it is


def bundled_pip() -> Path | None:
    """The wheel that ensurepip would install; distributions put it into a folder of their own."""
    places = ["/usr/share/python-wheels", "/usr/share/python3-wheels"]
    spec = importlib.util.find_spec("ensurepip")
    if spec and spec.origin:
        places.insert(0, str(Path(spec.origin).parent / "_bundled"))
    wheels = [w for place in places for w in sorted(Path(place).glob("pip-*.whl"))]
    return wheels[-1] if wheels else None


def debian_pip(work: Path) -> Path | None:
    """Debian's package with pip's wheel, downloaded and unpacked, not installed: needs no root."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return None
    folder = work / "debian"
    folder.mkdir()
    folder.chmod(0o777)  # apt drops root to a user of its own
    get = ["apt-get", "-qq", "-o", "APT::Sandbox::User="]
    if not works([*get, "download", "python3-pip-whl"], cwd=folder):
        lists = folder / "lists"
        (lists / "partial").mkdir(parents=True)
        get += ["-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={folder}"]
        run([*get, "update"], cwd=folder)
        run([*get, "download", "python3-pip-whl"], cwd=folder)
    package = next(folder.glob("python3-pip-whl_*.deb"))
    run(["dpkg-deb", "-x", package, folder / "files"])
    return next((folder / "files").rglob("pip-*.whl"), None)


# --- By the index that was configured for pip -----------------------------------------------


def pip_settings(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What pip would take from its environment and its files: index-url, extra-index-url, cert."""
    environ = os.environ if environ is None else environ
    home = Path(environ.get("HOME") or "/nonexistent")
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [
        Path("/etc/xdg/pip/pip.conf"),
        Path("/etc/pip.conf"),
        home / ".pip/pip.conf",
        config / "pip/pip.conf",
        Path(sys.prefix) / "pip.conf",
        Path(environ.get("PIP_CONFIG_FILE") or "/nonexistent"),
    ]
    parser = configparser.RawConfigParser()
    parser.read([str(file) for file in files if os.access(file, os.R_OK)])
    found: dict[str, str] = {}
    for name in ("index-url", "extra-index-url", "cert"):
        for section in ("global", "download", "install"):
            if parser.has_option(section, name):
                found[name] = parser.get(section, name).strip()
        value = environ.get("PIP_" + name.upper().replace("-", "_"))
        if value:
            found[name] = value
    return found


def index_environment() -> dict[str, str]:
    """Pip's index for uv, which does not read pip's configuration; uv's own wins."""
    settings = pip_settings()
    extra: dict[str, str] = {}
    if "index-url" in settings and not os.environ.get("UV_DEFAULT_INDEX"):
        extra["UV_DEFAULT_INDEX"] = settings["index-url"]
    if "extra-index-url" in settings and not os.environ.get("UV_INDEX"):
        extra["UV_INDEX"] = settings["extra-index-url"]
    if "cert" in settings and not os.environ.get("SSL_CERT_FILE"):
        extra["SSL_CERT_FILE"] = settings["cert"]
    if system_certificates():
        extra.setdefault("UV_SYSTEM_CERTS", "true")
        extra.setdefault("UV_NATIVE_TLS", "true")  # the name that it had before
    return extra


def system_certificates() -> Path | None:
    """The machine's own trust store, where an organisation adds its authority; None without one."""
    paths = ssl.get_default_verify_paths()
    places = (os.environ.get("SSL_CERT_FILE"), paths.cafile, "/etc/ssl/certs/ca-certificates.crt")
    return next((Path(p) for p in places if p and os.access(p, os.R_OK)), None)


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def by_configured_index(work: Path, version: str, hashes: set[str]) -> Path | None:
    settings = pip_settings()
    index = settings.get("index-url") or os.environ.get("UV_DEFAULT_INDEX")
    if not index:
        return None
    context = ssl.create_default_context(cafile=settings.get("cert"))
    page = f"{index.rstrip('/')}/uv/"
    links = _Links()
    links.feed(download(page, context).decode("utf-8", "replace"))
    for link in links.found:
        address, _, fragment = urllib.parse.urljoin(page, link).partition("#")
        name = urllib.parse.unquote(address.rsplit("/", 1)[-1])
        if fits(name, version) and fragment.removeprefix("sha256=") in hashes:
            wheel = work / name
            wheel.write_bytes(download(address, context))
            return wheel
    raise SetupError(f"it has no uv {version} for this machine")


def download(address: str, context: ssl.SSLContext) -> bytes:
    scheme = urllib.parse.urlsplit(address).scheme
    if scheme not in {"https", "http"}:
        raise SetupError(f"an address that is not http(s): {scheme}")
    request = urllib.request.Request(address, headers={"Accept": "text/html, */*;q=0.1"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer:
        return bytes(answer.read())


def fits(name: str, version: str) -> bool:
    if not name.startswith(f"uv-{version}-") or not name.endswith(".whl"):
        return False
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    if sys.platform == "darwin":
        return "macosx" in name and name.endswith(f"_{platform.machine()}.whl")
    libc = "manylinux" if platform.libc_ver()[0] == "glibc" else "musllinux"
    return libc in name and name.endswith(f"_{machine}.whl")


WAYS: list[tuple[Callable[[Path, str, set[str]], Path | None], str]] = [
    (by_pip, "pip"),
    (by_configured_index, "the package index configured for pip"),
]
