# SPDX-License-Identifier: MIT OR Apache-2.0
"""Refuses memory (the kernel's failslab) to what is done to the disk testdisk0 under Cello.

disk-refuse.py [MOST]

Each thing is done over and over: the Nth time the Nth piece of memory that it asks for is refused, until it asks for
fewer, or that has been done MOST times (400).  Whatever comes of it is allowed, but what worked before works afterwards.  A
line tells of each thing how often it was done.  The exit status is 1 where something does not work any more.
"""

import ctypes
import mmap
import os
import subprocess
import sys

QUEUE = "/sys/block/testdisk0/queue"
DEBUG = "/sys/kernel/debug/block/testdisk0/sched"
DISKS = "/sys/kernel/debug/testdisk"
CGROUP = "/sys/fs/cgroup/refused"
MOST = int(sys.argv[1]) if len(sys.argv) > 1 else 400
INIT_MODULE = 175
PARAMETERS = {"cello": [], "testdisk": ["queues=2", "model=flat"]}
libc = ctypes.CDLL(None)


def write(path, text):
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def read(path):
    file = os.open(path, os.O_RDONLY)
    try:
        while os.read(file, 65536):
            pass
    finally:
        os.close(file)


def quietly(command, *args):
    try:
        command(*args)
    except (OSError, MemoryError):
        pass


def transfer(offset):
    """A page read and written, past the page cache, in a cgroup that the disk may not know yet."""
    page = mmap.mmap(-1, 4096)
    disk = os.open("/dev/testdisk0", os.O_RDWR | os.O_DIRECT)
    try:
        os.preadv(disk, [page], offset)
        os.pwritev(disk, [page], offset)
    finally:
        os.close(disk)


def new_cgroup():
    os.mkdir(CGROUP)
    with open("/sys/fs/cgroup/refused/io.cello.class", "w") as file:
        file.write("interactive")
    write(f"{CGROUP}/cgroup.procs", "0")


def leave_cgroup():
    write("/sys/fs/cgroup/cgroup.procs", "0")
    quietly(os.rmdir, CGROUP)


def modprobe(*args):
    subprocess.run(["modprobe", *args], stderr=subprocess.DEVNULL, check=False)


class Refusal:
    """The Nth piece of memory that this thread asks for is refused."""

    def __init__(self):
        self.file = os.open("/proc/thread-self/fail-nth", os.O_RDWR)

    def of(self, n, command):
        """Whether there was an Nth."""
        os.pwrite(self.file, str(n).encode(), 0)
        quietly(command)
        left = int(os.pread(self.file, 32, 0).split(b"\0")[0])
        os.pwrite(self.file, b"0", 0)
        return left == 0

    def of_each(self, name, command, before=None, after=None):
        for n in range(1, MOST + 1):
            if before:
                before()
            refused = self.of(n, command)
            if after:
                after()
            if not refused:
                break
        print(f"{name}: {n} times", flush=True)


def scheduler(name):
    write(f"{QUEUE}/scheduler", name)
    with open(f"{QUEUE}/scheduler") as file:
        if f"[{name}]" not in file.read():
            sys.exit(f"the scheduler is not {name}")


def insert(name):
    """A module whose initialisation is refused memory; modprobe would do it in another process."""
    path = subprocess.run(["modinfo", "-n", name], capture_output=True, text=True, check=True).stdout.strip()
    with open(path, "rb") as file:
        # Without its types: the kernel reads beyond the end of what it has when it is refused memory for those (6.12).
        image = file.read().replace(b"\0.BTF", b"\0.btf")
    parameters = " ".join(PARAMETERS[name]).encode()
    return lambda: libc.syscall(INIT_MODULE, image, len(image), parameters)


def main():
    refusal = Refusal()
    modprobe("mq-deadline")
    refusal.of_each("scheduler", lambda: write(f"{QUEUE}/scheduler", "cello"), before=lambda: scheduler("none"))
    scheduler("cello")
    for name in ["scheduled", "pending", "groups", "realtime"]:
        refusal.of_each(name, lambda: read(f"{DEBUG}/{name}"))
    refusal.of_each("nr_requests", lambda: write(f"{QUEUE}/nr_requests", "8"), after=lambda: write(f"{QUEUE}/nr_requests", "64"))
    refusal.of_each("cgroup", lambda: os.mkdir(CGROUP), after=lambda: quietly(os.rmdir, CGROUP))
    refusal.of_each("request", lambda: transfer(0))
    refusal.of_each("first request", lambda: transfer(4096), before=new_cgroup, after=leave_cgroup)
    refusal.of_each("disk", lambda: write(f"{DISKS}/add", "flat"), after=lambda: quietly(write, f"{DISKS}/testdisk1/remove", "1"))
    scheduler("none")
    for name in PARAMETERS:
        modprobe("-r", name)
        refusal.of_each(name, insert(name), after=lambda: modprobe("-r", name))
        modprobe(name, *PARAMETERS[name])
    scheduler("cello")
    transfer(0)


main()
