"""The images of the cluster, made on this machine and kept by what they are made from."""

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from devcluster import oci
from devcluster.layout import REGISTRY_PORT, ROOT, cache
from devcluster.programs import binary
from tools.setup_shell import digest, run
from tools.setup_steps import LAB_OVERRIDES, LAB_OVERRIDES_AT, TOOLS
from tools.setup_uv import fetched_uv, index_environment, system_certificates

SUITE = "bookworm"
# What a person finds in a container, and what a notebook needs of the system.
PACKAGES: tuple[str, ...] = (
    "bash",
    "ca-certificates",
    "coreutils",
    "curl",
    "git",
    "less",
    "netcat-openbsd",
)
PACKAGES += ("openssh-client", "procps", "python3", "tini", "vim-tiny")
# Beside them, in an image for MPI: its launcher reaches the others over ssh.
MPI: tuple[str, ...] = ("openmpi-bin", "openssh-server")
SERVING: tuple[str, ...] = ("libgomp1",)
USER = 1000
PERSON = f"{USER}:{USER}"
SHELL_USER = f"berth:x:{USER}:{USER}:Berth:/home/berth:/bin/bash\n"
UNNEEDED: tuple[str, ...] = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man")
UNNEEDED += ("usr/share/locale", "var/log", "var/cache/debconf")
JUPYTER, DATA, ANALYSIS = "/opt/jupyter", "/opt/data", "/opt/analysis"
PACKAGES_OF = "lib/python3.11/site-packages"  # the suite's Python
LOCK = ROOT / "requirements/image-jupyterlab.txt"
ANALYSIS_LOCK = ROOT / "requirements/image-analysis.txt"
DATA_LOCK, DATAPLANE = ROOT / "requirements/dataplane.txt", ROOT / "dataplane"
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Of an image that starts what needs root before anything else, and says so where it is not.
INIT = b"""#!/bin/sh
if [ "$(id -u)" != 0 ]; then
    echo "this image needs root and has user $(id -u)" >&2
    exit 100
fi
exec "$@"
"""
UTF8 = {"LANG": "C.UTF-8", "HOME": "/home/berth"}
REGISTRY = f"http://127.0.0.1:{REGISTRY_PORT}"
Said = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """``key`` names everything that decides the layer's content."""

    name: str
    key: str
    make: Callable[[Path], oci.Layer]

    def layer(self, say: Said) -> oci.Layer:
        folder = cache() / "layers" / f"{self.name}-{self.key}"
        if found := oci.read_layer(folder):
            return found
        say(f"making the layer {self.name}")
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{self.name}-"))
        try:
            self.make(unfinished)
            shutil.rmtree(folder, ignore_errors=True)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        made = oci.read_layer(folder)
        if made is None:
            raise RuntimeError(f"the layer {self.name} was not made")
        return made

    def kept(self) -> bool:
        return oci.read_layer(cache() / "layers" / f"{self.name}-{self.key}") is not None


# --- Layers ---------------------------------------------------------------------------------------


def single(name: str, place: str, source: Path) -> Recipe:
    return Recipe(
        name,
        digest(place, source),
        lambda folder: oci.write_layer(folder, oci.files_as_tar({place: source})),
    )


def debian() -> Recipe:
    return Recipe("debian", digest(SUITE, " ".join(PACKAGES), SHELL_USER, "2"), make_debian)


def mpi_debian() -> Recipe:
    """With MPI from the start: the system's packages are one layer."""
    key = digest(SUITE, " ".join((*PACKAGES, *MPI)), SHELL_USER, "1")
    return Recipe("debian-mpi", key, lambda folder: make_debian(folder, MPI))


def serving_debian() -> Recipe:
    """With what LightGBM asks of the system: OpenMP."""
    key = digest(SUITE, " ".join((*PACKAGES, *SERVING)), SHELL_USER, "1")
    return Recipe("debian-serving", key, lambda folder: make_debian(folder, SERVING))


def make_debian(folder: Path, more: tuple[str, ...] = ()) -> oci.Layer:
    root = folder / "root"
    include = ",".join((*PACKAGES, *more))
    run(["debootstrap", "--variant=minbase", f"--include={include}", SUITE, root])
    for name in UNNEEDED:
        empty(root / name)
    with (root / "etc/passwd").open("a") as users:
        users.write(SHELL_USER)
    with (root / "etc/group").open("a") as groups:
        groups.write(f"berth:x:{USER}:\n")
    home = root / "home/berth"
    home.mkdir()
    os.chown(home, USER, USER)
    return packed(folder, root)


def packed(folder: Path, root: Path, *parts: str) -> oci.Layer:
    try:
        return oci.write_layer(folder, oci.folder_as_tar(root, *parts))
    finally:
        shutil.rmtree(root)


def empty(folder: Path) -> None:
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def locked(name: str, place: str, lock: Path) -> Recipe:
    """The packages of a lock file, at ``place``."""

    def make(folder: Path) -> oci.Layer:
        return make_environment(folder, place, lock)

    return Recipe(name, digest(lock, debian().key, "1"), make)


def jupyter() -> Recipe:
    return locked("jupyterlab", JUPYTER, LOCK)


def data_packages() -> Recipe:
    return locked("data", DATA, DATA_LOCK)


def analysis_packages() -> Recipe:
    return locked("analysis", ANALYSIS, ANALYSIS_LOCK)


def jupyter_defaults() -> Recipe:
    """Defaults of JupyterLab that a person's own settings override, as on one machine."""
    return single("jupyterlab-defaults", f"{JUPYTER}/{LAB_OVERRIDES_AT}", LAB_OVERRIDES)


def analysis_path() -> Recipe:
    """Kernels of JupyterLab find the packages beside their own, which come first."""
    line = f"{ANALYSIS}/{PACKAGES_OF}\n"
    files: dict[str, Path | bytes] = {f"{JUPYTER}/{PACKAGES_OF}/analysis.pth": line.encode()}
    return Recipe(
        "analysis-path",
        digest(*files, line),
        lambda at: oci.write_layer(at, oci.files_as_tar(files)),
    )


def dataplane() -> Recipe:
    """Our own package, in a layer of its own: it changes more often than what it needs."""
    site = f"{DATA}/{PACKAGES_OF}/dataplane"
    found = sorted(path for path in DATAPLANE.rglob("*.py"))
    files: dict[str, Path | bytes] = {f"{site}/{p.relative_to(DATAPLANE)}": p for p in found}
    key = digest(*files, *found)
    return Recipe("dataplane", key, lambda at: oci.write_layer(at, oci.files_as_tar(files)))


def make_environment(folder: Path, place: str, lock: Path) -> oci.Layer:
    """Packages exactly as locked, installed inside the image's own system."""
    root = folder / "root"
    oci.unpack(debian().layer(lambda _: None), root)
    work = root / "tmp/work"
    work.mkdir()
    shutil.copy2(fetched_uv(TOOLS), work / "uv")
    shutil.copy2(lock, work / "lock.txt")
    shutil.copy2("/etc/resolv.conf", root / "etc/resolv.conf")
    env = {**index_environment(), "UV_CACHE_DIR": "/tmp/work/cache", "PATH": PATHS}  # noqa: S108
    if trusted := system_certificates():
        shutil.copy2(trusted, work / "trusted.pem")
        env["SSL_CERT_FILE"] = "/tmp/work/trusted.pem"  # noqa: S108
    inside = ["chroot", root, "/tmp/work/uv"]  # noqa: S108
    run([*inside, "venv", "-q", "--python", "/usr/bin/python3", place], env=env)
    install = ["pip", "sync", "-q", "--require-hashes", "--compile-bytecode"]
    python = ["--python", f"{place}/bin/python", "/tmp/work/lock.txt"]  # noqa: S108
    run([*inside, *install, *python], env=env)
    return packed(folder, root, f".{place}")


def pause_binary() -> Path:
    """Built at once when missing: it has no dependencies."""
    from devcluster.programs import MODULES, go

    folder = MODULES / "pause"
    made = cache() / "bin" / f"pause-{digest(folder / 'main.go')}"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        flags = ["-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
        run([go(), "build", *flags, "-o", made, "."], cwd=folder, env={"CGO_ENABLED": "0"})
    return made


# --- Images ---------------------------------------------------------------------------------------


def pause(say: Said) -> oci.Image:
    layer = single("pause", "/pause", pause_binary()).layer(say)
    return oci.Image("berth/pause", "1", [layer], ["/pause"], user="65534:65534")


def coredns(say: Said) -> oci.Image:
    layer = single("coredns", "/coredns", binary("coredns")).layer(say)
    return oci.Image("berth/coredns", "1", [layer], ["/coredns"], user="65534:65534")


def katib(say: Said) -> oci.Image:
    """All programs of Katib: each pod's command says which."""
    names = ("katib-controller", "katib-db-manager", "katib-goptuna")
    layers = [single(name, f"/{name}", binary(name)).layer(say) for name in names]
    return oci.Image("berth/katib", "1", layers, ["/katib-controller"], user=PERSON)


def tool(say: Said) -> oci.Image:
    return oci.Image(
        "berth/tool",
        "1",
        [debian().layer(say)],
        ["/usr/bin/tini", "--"],
        ["sleep", "infinity"],
        environment={"PATH": PATHS, **UTF8},
        user=PERSON,
        folder="/home/berth",
    )


def mpi(say: Said) -> oci.Image:
    """The tool image with MPI and what its launcher needs."""
    return replace(tool(say), name="berth/mpi", layers=[mpi_debian().layer(say)])


def asroot(say: Said) -> oci.Image:
    """The tool image as many are made: nobody said which user, so it would be root."""
    return replace(tool(say), name="berth/asroot", user="")


def needsroot(say: Said) -> oci.Image:
    """One that insists: its first program ends at once under any other user."""
    recipe = Recipe(
        "init",
        digest(INIT.decode()),
        lambda at: oci.write_layer(at, oci.files_as_tar({"/init": INIT})),
    )
    made = tool(say)
    layers = [*made.layers, recipe.layer(say)]
    return replace(made, name="berth/needsroot", layers=layers, command=["/init"], user="root")


def greedy(say: Said) -> oci.Image:
    """Its environment asks the node's hooks for all GPUs, and to load a library of its own."""
    made = tool(say)
    asks = {
        "LD_AUDIT": "/opt/of-the-image.so",
        "LD_PRELOAD": "/opt/of-the-image.so",
        "NVIDIA_DRIVER_CAPABILITIES": "all",
        "NVIDIA_VISIBLE_DEVICES": "all",
    }
    return replace(made, name="berth/greedy", environment={**made.environment, **asks})


def echo(say: Said) -> oci.Image:
    script = Path(__file__).parent / "pods/echo.py"
    layers = [debian().layer(say), single("echo", "/opt/echo.py", script).layer(say)]
    command = ["/usr/bin/python3", "/opt/echo.py"]
    return oci.Image(
        "berth/echo",
        "1",
        layers,
        command,
        environment={"PATH": PATHS},
        user=PERSON,
        ports=(8888,),
    )


def jupyterlab(say: Said) -> oci.Image:
    layers = [debian(), jupyter(), jupyter_defaults()]
    return notebook("jupyterlab", "6.1", layers, JUPYTER, say=say)


def analysis(say: Said) -> oci.Image:
    """JupyterLab with what a person adds who works on data: pandas and the aws command line."""
    layers = [debian(), jupyter(), jupyter_defaults(), analysis_packages(), analysis_path()]
    return notebook("analysis", "1", layers, JUPYTER, ANALYSIS, say=say)


def notebook(name: str, tag: str, recipes: list[Recipe], *places: str, say: Said) -> oci.Image:
    """``places``: where programs are, the first one's come first."""
    path = ":".join([*(f"{place}/bin" for place in places), PATHS])
    return oci.Image(
        f"berth/{name}",
        tag,
        [recipe.layer(say) for recipe in recipes],
        ["/usr/bin/tini", "--"],
        ["jupyterhub-singleuser", "--ip=0.0.0.0", "--port=8888"],
        environment={"PATH": path, **UTF8, "SHELL": "/bin/bash"},
        user=PERSON,
        folder="/home/berth",
        ports=(8888,),
    )


def data(say: Said) -> oci.Image:
    """Copies data and serves files: the package dataplane and nothing of the portal."""
    layers = [recipe.layer(say) for recipe in (debian(), data_packages(), dataplane())]
    return oci.Image(
        "berth/data",
        "1",
        layers,
        ["/usr/bin/tini", "--"],
        ["python3", "-I", "-m", "dataplane.copy"],
        environment={"PATH": f"{DATA}/bin:{PATHS}", **UTF8},
        user=PERSON,
        folder="/home/berth",
    )


FIRST = (pause, coredns)  # what the cluster itself needs
LATER = (tool, asroot, needsroot, greedy, echo, jupyterlab, data, analysis)
LARGE = (debian, jupyter, data_packages, analysis_packages)  # their layers take a while


def make_layers(say: Said) -> None:
    """Those that take a while; the others are single files."""
    for recipe in LARGE:
        recipe().layer(say)


def need_debian() -> bool:
    return not all(recipe().kept() for recipe in LARGE)


def reference(image: oci.Image) -> str:
    return f"127.0.0.1:{REGISTRY_PORT}/{image.name}:{image.tag}"


def publish(make: Callable[[Said], oci.Image], say: Said) -> dict[str, str]:
    """Makes one image when needed and pushes it; what it is called and its digest."""
    image = make(say)
    return {"reference": reference(image), "digest": oci.push(image, REGISTRY)}
