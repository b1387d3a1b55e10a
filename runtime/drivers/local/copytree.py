"""Copy a folder that a stranger fills, as root or not, without following a link of his.

Run as ``python -I -S -E copytree.py SOURCE TARGET``. It descends by descriptors, so nothing that
is swapped meanwhile leads elsewhere; devices, pipes and sockets are left out; owners, modes,
times, attributes (ACLs) and hard links are kept. Files share their blocks where the disk can do
that. TARGET must not exist and is complete when the exit code is 0; the number of bytes that
the files have together is written to standard output.
"""

import errno
import fcntl
import os
import stat
import sys

_FICLONE = 0x40049409
_CHUNK = 8 * 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# The file system does not have it, or not for us: a copy without it is still a copy.
_NO_CLONE = {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM}


class Copy:
    """One copy. ``bytes`` counts what files hold."""

    def __init__(self, source: str, target: str) -> None:
        self.bytes = 0
        self.clones = True
        self._device = 0
        self._links: dict[tuple[int, int], str] = {}  # inode → where it was copied to, below top
        self.top = -1
        self.source, self.target = source, target

    def run(self) -> None:
        source = os.open(self.source, _FOLDER)
        os.mkdir(self.target, 0o700)  # noqa: PTH102
        self.top = os.open(self.target, _FOLDER)
        self._device = os.fstat(source).st_dev
        # Without recursion: folders may lie in one another deeper than a stack is
        open_now: list[tuple[int, int, str, list[str]]] = []
        self._enter(open_now, source, self.top, "")
        while open_now:
            here, there, path, left = open_now[-1]
            if not left:
                open_now.pop()
                # Last, so that what was put into it does not change its time
                _dress(here, there, os.fstat(here))
                os.close(here)
                if there != self.top:
                    os.close(there)
                continue
            name = left.pop()
            inner = self._entry(here, there, name, f"{path}{name}")
            if inner is not None:
                self._enter(open_now, *inner, f"{path}{name}/")
        os.fsync(self.top)

    def _enter(
        self, open_now: list[tuple[int, int, str, list[str]]], here: int, there: int, path: str
    ) -> None:
        open_now.append((here, there, path, sorted(os.listdir(here), reverse=True)))

    def _entry(self, here: int, there: int, name: str, path: str) -> tuple[int, int] | None:
        """Copy one; return the descriptors of a folder to go on in."""
        try:
            seen = os.stat(name, dir_fd=here, follow_symlinks=False)
            if stat.S_ISDIR(seen.st_mode):
                if seen.st_dev != self._device:
                    return None
                inner = os.open(name, _FOLDER, dir_fd=here)
                os.mkdir(name, 0o700, dir_fd=there)
                return inner, os.open(name, _FOLDER, dir_fd=there)
            if stat.S_ISLNK(seen.st_mode):
                self._link(here, there, name, seen)
            elif stat.S_ISREG(seen.st_mode):
                self._file(here, there, name, path)
        except (FileNotFoundError, NotADirectoryError):
            return None  # it went while we looked
        except OSError as problem:
            if problem.errno != errno.ELOOP:  # it became a link while we looked
                raise
        return None

    def _link(self, here: int, there: int, name: str, seen: os.stat_result) -> None:
        os.symlink(os.readlink(name, dir_fd=here), name, dir_fd=there)
        if os.geteuid() == 0:
            os.chown(name, seen.st_uid, seen.st_gid, dir_fd=there, follow_symlinks=False)
        os.utime(name, ns=(seen.st_atime_ns, seen.st_mtime_ns), dir_fd=there, follow_symlinks=False)

    def _file(self, here: int, there: int, name: str, path: str) -> None:
        source = os.open(name, _READ, dir_fd=here)
        try:
            seen = os.fstat(source)
            if not stat.S_ISREG(seen.st_mode):
                return
            key = (seen.st_dev, seen.st_ino)
            if seen.st_nlink > 1 and self._linked(key, there, name):
                return
            target = os.open(name, _WRITE, 0o600, dir_fd=there)
            try:
                self._content(source, target, seen.st_size)
                _dress(source, target, seen)
            finally:
                os.close(target)
            if seen.st_nlink > 1:
                self._links[key] = path
        finally:
            os.close(source)

    def _linked(self, key: tuple[int, int], there: int, name: str) -> bool:
        """The copy belongs to nobody else yet: a path of ours below the top is safe."""
        if key not in self._links:
            return False
        os.link(
            self._links[key], name, src_dir_fd=self.top, dst_dir_fd=there, follow_symlinks=False
        )
        return True

    def _content(self, source: int, target: int, size: int) -> None:
        self.bytes += size
        if self.clones:
            try:
                fcntl.ioctl(target, _FICLONE, source)
            except OSError as problem:
                if problem.errno not in _NO_CLONE:
                    raise
                self.clones = False
            else:
                return
        # Copy what is there; a hole stays a hole
        at = 0
        while at < size:
            try:
                begin = os.lseek(source, at, os.SEEK_DATA)
            except OSError as problem:
                if problem.errno == errno.ENXIO:
                    break
                begin = at
            end = min(_end_of_data(source, begin, size), size)
            os.lseek(target, begin, os.SEEK_SET)
            os.lseek(source, begin, os.SEEK_SET)
            left = end - begin
            while left > 0:
                done = os.sendfile(target, source, None, min(left, _CHUNK))
                if not done:
                    break  # it became shorter
                left -= done
            at = end
        os.ftruncate(target, size)


def _end_of_data(source: int, begin: int, size: int) -> int:
    try:
        return os.lseek(source, begin, os.SEEK_HOLE)
    except OSError:
        return size


def _dress(source: int, target: int, seen: os.stat_result) -> None:
    """Owner first: giving a file away clears bits of its mode."""
    if os.geteuid() == 0:
        os.fchown(target, seen.st_uid, seen.st_gid)
    os.fchmod(target, stat.S_IMODE(seen.st_mode))
    for name in _attributes(source):
        try:
            os.setxattr(target, name, os.getxattr(source, name))
        except OSError:
            continue  # the disk's own, or not for us
    os.utime(target, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def _attributes(source: int) -> list[str]:
    try:
        return os.listxattr(source)
    except OSError:
        return []


def main() -> None:
    copy = Copy(sys.argv[1], sys.argv[2])
    try:
        copy.run()
    except OSError as problem:
        sys.stderr.write(problem.strerror or str(problem))
        raise SystemExit(1) from None
    sys.stdout.write(f"{copy.bytes}\n")


if __name__ == "__main__":
    main()
