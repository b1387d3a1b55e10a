"""Runs a notebook to its end, or the first seconds of any program, and tells how that went.

    run_file.py notebook FILE          needs nbclient, which JupyterLab brings
    run_file.py smoke SECONDS GPUS -- COMMAND …

It is read by whatever Python an image has (3.8 and later), so it imports nothing of Berth.
"""

import asyncio
import base64
import contextlib
import ctypes
import gzip
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
from typing import Any, Dict, List, NoReturn, Optional

CELL_BYTES = 8 << 20  # of text that one cell may print into the result
ALL_BYTES = 48 << 20  # of all that a result keeps
SHOWN_BYTES = 2 << 20  # of one output on the page
PAGE_BYTES = 3 << 20  # of the page, packed
SAVE_EVERY_S = 10.0
CODE_OF_A_TYPO, CODE_OF_A_FILE, CODE_OF_A_SIGNAL = 65, 66, 128
GRACE_S = 5.0
TAIL = 64 << 10
# What a program says that found no GPU: a smoke run has none, also where its job asks for some.
NO_GPU = re.compile(
    rb"(CUDA|NVIDIA|nvml|\bGPUs?\b|\bHIP\b)[^\n]*"
    rb"(not |no |unavailable|insufficient|[Ii]nitializ|fail)"
    rb"|(no |not |[Ff]ound no )[^\n]*(CUDA|NVIDIA|\bGPUs?\b)",
)


def say(text: str) -> None:
    print("berth: " + text, flush=True)


def tell(**report: Any) -> None:
    """Report to the portal, where it said how; what happened counts without it, too."""
    url, token = os.environ.get("BERTH_REPORT_URL"), os.environ.get("BERTH_REPORT_TOKEN")
    if not url or not token:
        return
    body = json.dumps(report).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + token}
    for pause in (0.5, 2.0, 5.0, 0.0):
        request = urllib.request.Request(url, body, headers)
        try:
            urllib.request.urlopen(request, timeout=20).close()
            return
        except urllib.error.HTTPError as error:
            if error.code < 500:  # noqa: PLR2004 - the portal knows of a newer launch, or of none
                return
        except OSError:
            pass
        time.sleep(pause)


def fail(text: str, code: int) -> NoReturn:
    """End with what is wrong, told to the portal and in the log."""
    say(text)
    tell(failure=text)
    sys.exit(code)


# --- a notebook -------------------------------------------------------------------------------


def read(path: str) -> Any:
    import nbformat

    try:
        with open(path, encoding="utf-8") as file:
            book = nbformat.read(file, as_version=4)
    except OSError as error:
        fail("%s can't be read: %s." % (path, error.strerror), CODE_OF_A_FILE)
    except Exception as error:  # of JSON, of its encoding, or of nbformat
        told = str(error).strip().splitlines()
        fail("%s is no notebook: %s" % (path, told[0][:200] if told else error), CODE_OF_A_TYPO)
    if os.environ.get("BERTH_SMOKE_RUN"):
        check_cells(book)
    return book


def code_cells(book: Any) -> List[int]:
    return [n for n, cell in enumerate(book.cells) if cell.cell_type == "code"]


def check_cells(book: Any) -> None:
    """Compile every cell as IPython would run it: a typo in the last one is found in the first
    second.
    """
    if (book.metadata.get("kernelspec") or {}).get("language", "python") != "python":
        return
    try:
        from IPython.core.inputtransformer2 import TransformerManager
    except ImportError:
        return
    import ast

    for number, index in enumerate(code_cells(book), 1):
        source = book.cells[index].source
        if source.lstrip().startswith("%%"):  # a magic says what its cell is written in
            continue
        name = "cell %d" % number
        try:
            plain = TransformerManager().transform_cell(source)
            compile(plain, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except (SyntaxError, ValueError) as error:
            lines = traceback.format_exception_only(type(error), error)
            fail("Cell %d can't be run.\n%s" % (number, "".join(lines)), CODE_OF_A_TYPO)


def free_name(path: str) -> Optional[str]:
    """Make the file of the result, beside the notebook; None where nothing can be written."""
    stem = path[: -len(".ipynb")]
    for number in range(1, 10_000):
        name = "%s.run-%d.ipynb" % (stem, number)
        try:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            return name
        except FileExistsError:
            continue
        except OSError as error:
            say("the result can't be kept beside it: %s." % error.strerror)
            return None
    return None


def save(book: Any, name: Optional[str]) -> None:
    if name is None:
        return
    import nbformat

    part = name + ".part"
    try:
        nbformat.write(book, part)
        os.replace(part, name)
    except OSError as error:
        say("the result can't be written: %s." % error.strerror)


def kernel_of(book: Any) -> str:
    """Return the kernel that runs it: its own, or for Python the one that is there."""
    from jupyter_client.kernelspec import KernelSpecManager

    spec = book.metadata.get("kernelspec") or {}
    wanted = spec.get("name") or "python3"
    known = sorted(KernelSpecManager().find_kernel_specs())
    if wanted in known:
        return str(wanted)
    if spec.get("language") != "python" or "python3" not in known:
        there = ", ".join(known) or "none"
        fail("Its kernel “%s” is not there; there are: %s." % (wanted, there), CODE_OF_A_FILE)
    say("its kernel “%s” is not there; python3 runs it." % wanted)
    return "python3"


def client_of(book: Any, kernel: str, **hooks: Any) -> Any:
    """Return what runs the cells: it prints what they print, and keeps what a result may hold."""
    from nbclient import NotebookClient

    class Client(NotebookClient):
        kept: Dict[int, int] = {}

        def output(self, outs: Any, msg: Any, display_id: Any, cell_index: int) -> Any:
            content, is_text = msg["content"], msg["msg_type"] == "stream"
            size = len(str(content.get("text") or content.get("data") or ""))
            if is_text:
                sys.stdout.write(content["text"])
                sys.stdout.flush()
            before = self.kept.get(cell_index, 0)
            room = max(0, min(CELL_BYTES - before, ALL_BYTES - sum(self.kept.values())))
            self.kept[cell_index] = before + min(size, room)
            if size > room:
                if not room or not is_text:
                    return None
                said = content["text"][:room] + "\n[More was left out of the result.]\n"
                msg = {**msg, "content": {**content, "text": said}}  # the first that is too much
            return super().output(outs, msg, display_id, cell_index)

    client = Client(book, timeout=None, kernel_name=kernel, **hooks)
    client.create_kernel_manager().transport = "ipc"  # files of its user, and no open port
    return client


def notebook(path: str) -> NoReturn:
    """Run each cell until one fails; the result is kept whatever happens."""
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    book = read(path)
    smoke = bool(os.environ.get("BERTH_SMOKE_RUN"))
    kernel = kernel_of(book)
    name = None if smoke else free_name(path)
    save(book, name)
    numbers = {index: n for n, index in enumerate(code_cells(book), 1)}
    now: Dict[str, Any] = {"cell": 0, "saved": time.monotonic()}

    def began(cell: Any, cell_index: int) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):  # nbclient sets its own at each start
            asyncio.get_running_loop().add_signal_handler(number, told_to_end, number)
        now["cell"] = numbers.get(cell_index, 0)
        say("cell %d of %d" % (now["cell"], len(numbers)))
        if time.monotonic() - now["saved"] > SAVE_EVERY_S:
            now["saved"] = time.monotonic()
            save(book, name)

    def told_to_end(got: int) -> None:
        """Let the kernel die, which ends the cell wherever its loop is just now."""
        now["ended"] = CODE_OF_A_SIGNAL + got
        os.kill(client.km.provisioner.pid, signal.SIGKILL)

    client = client_of(book, kernel, on_cell_execute=began)
    failure, code = "", 0
    try:
        client.execute()
    except CellExecutionError as error:
        failure, code = _told(now["cell"], error), 1
    except DeadKernelError:
        failure, code = "The kernel ended in cell %d: killed, or out of memory." % now["cell"], 1
    finally:
        with contextlib.suppress(Exception):
            client.km.shutdown_kernel(now=True)
    if "ended" in now:
        failure, code = "It was ended in cell %d." % now["cell"], int(now["ended"])
    if failure:
        say(failure)
    save(book, name)
    if name:
        say("result: " + name)
    tell(failure=failure, **({} if smoke else {"name": name or "", "page": page_of(book)}))
    sys.exit(code)


def _told(number: int, error: Any) -> str:
    """Return which cell failed and how, as its traceback says it without colours."""
    colours = re.compile(r"\x1b\[[0-9;]*m")
    lines = colours.sub("", getattr(error, "traceback", "") or "").strip().splitlines()
    what = "%s: %s" % (getattr(error, "ename", "") or "error", getattr(error, "evalue", ""))
    return "Cell %d failed: %s\n%s" % (number, what[:500], "\n".join(lines[-30:]))


def page_of(book: Any) -> str:
    """Return the notebook as a page without scripts, packed; "" where it can't be made."""
    import copy

    shown = copy.deepcopy(book)
    for cell in shown.cells:
        for output in cell.get("outputs", ()):
            if len(str(output.get("text", ""))) > SHOWN_BYTES:
                output["text"] = output["text"][:SHOWN_BYTES] + "\n[…]"
            for kind, value in list(output.get("data", {}).items()):
                if len(str(value)) > SHOWN_BYTES:
                    output["data"][kind] = "" if kind.startswith("image/") else "[…]"
    try:
        import nbconvert

        # a thin layer of packages on top of an environment has that one's templates
        base = pathlib.Path(nbconvert.__file__).resolve().parents[4]
        known = os.environ.get("JUPYTER_PATH", "")
        os.environ["JUPYTER_PATH"] = os.pathsep.join([known, str(base / "share/jupyter")])
        text, _more = nbconvert.HTMLExporter(template_name="lab").from_notebook_node(shown)
    except Exception as error:  # its page is a courtesy: the notebook is there
        say("no page of the result could be made: %s" % str(error)[:200])
        return ""
    packed = gzip.compress(text.encode("utf-8", "replace"))
    return base64.b64encode(packed).decode() if len(packed) <= PAGE_BYTES else ""


# --- a smoke run ------------------------------------------------------------------------------


def check_sources(words: List[str]) -> None:
    """Compile the program that a command names: the word after Python's name, or the first."""
    for number, word in enumerate(words):
        before = words[number - 1] if number else "python3"
        if not word.endswith(".py") or not pathlib.Path(before).name.startswith("python"):
            continue
        path = pathlib.Path(word)
        if not path.is_file():
            fail("%s is not there, in %s." % (word, os.getcwd()), CODE_OF_A_FILE)
        try:
            compile(path.read_bytes(), word, "exec")
        except (SyntaxError, ValueError) as error:
            lines = traceback.format_exception_only(type(error), error)
            fail("%s can't be run.\n%s" % (word, "".join(lines)), CODE_OF_A_TYPO)
        return


def smoke(seconds: float, gpus: int, words: List[str]) -> NoReturn:
    """Run it for so long: who still runs then, or has ended well, has passed."""
    check_sources(words)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # whoever leaves it stays below this process
    # What it leaves is kept nowhere, and what it tells is of no run.
    os.environ.setdefault("BERTH_OUTPUT", tempfile.mkdtemp())
    os.environ["BERTH_EVENTS"] = os.devnull
    began = time.monotonic()
    try:
        child = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
    except OSError as error:
        fail("%s can't be started: %s." % (words[0], error.strerror), 127)
    signal.signal(signal.SIGTERM, lambda *_: (end(child.pid, 1.0), os._exit(143)))
    tail = bytearray()

    def pass_on() -> None:
        assert child.stdout is not None
        while True:
            data = os.read(child.stdout.fileno(), 1 << 16)
            if not data:
                return
            with contextlib.suppress(OSError):
                os.write(1, data)
            tail.extend(data)
            del tail[:-TAIL]

    reader = threading.Thread(target=pass_on, daemon=True)
    reader.start()
    try:
        code: Optional[int] = child.wait(seconds)
        reader.join(1.0)  # who left it may hold its output open
    except subprocess.TimeoutExpired:
        code = None
    took = time.monotonic() - began
    left = end(child.pid, GRACE_S)
    if code is None:
        done("passed: it still ran after %.0f s" % took)
    if code == 0:
        done("passed in %.1f s" % took + (", and left processes behind" if left else ""))
    last = bytes(tail[-TAIL:])
    if gpus and NO_GPU.search(last):
        done("passed as far as it goes without a GPU: it asked for one after %.1f s" % took)
    lines = last.decode("utf-8", "replace").strip().splitlines()
    told = "\n".join(line for line in lines[-40:] if not line.startswith("berth: "))
    shell = code if code > 0 else CODE_OF_A_SIGNAL - code
    if words[3:4] != ["notebook"]:  # a notebook has told of its cell itself
        tell(failure="It ended after %.1f s with exit code %d.\n%s" % (took, shell, told))
    say("failed with exit code %d" % shell)
    os._exit(shell)


def done(text: str) -> NoReturn:
    say(text)
    sys.stdout.flush()
    os._exit(0)


def end(pid: int, grace_s: float) -> bool:
    """End its processes, also those that left it; whether there were any but itself."""
    left = [one for one in children() if one != pid]
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGTERM)
    for one in children():
        with contextlib.suppress(OSError):
            os.kill(one, signal.SIGTERM)
    until = time.monotonic() + grace_s
    while time.monotonic() < until and children():
        with contextlib.suppress(OSError):
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.05)
    for _turn in range(20):
        for one in children():
            with contextlib.suppress(OSError):
                os.kill(one, signal.SIGKILL)
        with contextlib.suppress(OSError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not children():
            break
        time.sleep(0.05)
    return bool(left)


def children() -> List[int]:
    try:
        with open("/proc/self/task/%d/children" % os.getpid()) as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    if sys.argv[1] == "notebook":
        notebook(sys.argv[2])
    smoke(float(sys.argv[2]), int(sys.argv[3]), sys.argv[5:])
