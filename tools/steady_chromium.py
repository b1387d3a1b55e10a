#!/usr/bin/env -S python3 -E
"""Chromium that does not see the machine's network interfaces come and go.

Chromium listens to the kernel (netlink) and gives up all that it is still waiting for whenever an
address appears: ``net::ERR_NETWORK_CHANGED``.  On a laptop that is wise.  Beside tests that start
pods and containers it made pages that lack a style sheet or a script, by chance.  Without netlink
it says so on its log and takes itself to be online (``AddressTrackerLinux`` in its sources).

Playwright starts it in place of Chromium, whose path is in the variable ``CHROMIUM``.
"""

import ctypes
import os
import platform
import struct
import sys

# (AUDIT_ARCH_*, number of the system call ``socket``) by machine: linux/audit.h, asm/unistd.h
MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
AF_NETLINK, EAFNOSUPPORT = 16, 97
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | EAFNOSUPPORT
CALL, ARCH, FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data


class Program(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def without_netlink() -> None:
    """Refuse this process, and what it becomes, sockets of the family netlink."""
    arch, call = MACHINES[platform.machine()]
    # operation, jump if true, jump if false, operand
    rules = (
        (LOAD, 0, 0, ARCH),
        (EQUAL, 0, 4, arch),
        (LOAD, 0, 0, CALL),
        (EQUAL, 0, 2, call),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (EQUAL, 1, 0, AF_NETLINK),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    program = Program(len(rules), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*words):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    program = os.environ["CHROMIUM"]
    try:
        without_netlink()
    except (KeyError, OSError) as error:  # another machine, or a kernel without such filters
        print(f"Chromium will see changes of the network: {error!r}", file=sys.stderr)
    os.execv(program, [program, *sys.argv[1:]])
