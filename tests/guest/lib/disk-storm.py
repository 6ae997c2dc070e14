# SPDX-License-Identifier: MIT OR Apache-2.0
"""Changes all that can be changed of a disk, at random, while programs use it.

disk-storm.py SWITCHES SECONDS SEED CGROUP...

The disk testdisk0 gets another scheduler that often, and on for so long, and on until Cello has
served ENOUGH_SERVED requests and the disk has had no room, and has given back, ENOUGH_FAULTS
times.  How long that takes is chance; MOST_SECONDS are too long.  Between two switches other
things change: Cello's settings, classes and weights of the cgroups, the I/O priority of their
threads, the cgroup they are in, the number of tags, the cache, and whether the disk refuses
requests or gives them back, which then come to the scheduler once more.  Each change is done or
refused as it should be; a line tells the first that was not, and the exit status is 1.  Else the
last line is how many requests Cello served.
"""

import ctypes
import errno
import os
import random
import sys
import time

QUEUE = "/sys/block/testdisk0/queue"
IOSCHED = f"{QUEUE}/iosched"
DEBUG = "/sys/kernel/debug/block/testdisk0/sched"
DISK = "/sys/kernel/debug/testdisk/testdisk0"
CLASSES = ["interactive", "throughput", "realtime", "none"]
IOPRIO_SET = 251
ENOUGH_SERVED = 100
ENOUGH_FAULTS = 20
MOST_SECONDS = 120
libc = ctypes.CDLL(None, use_errno=True)


class Wrong(Exception):
    pass


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text, *allowed):
    """Refused with one of the allowed errors: False."""
    try:
        with open(path, "w") as file:
            file.write(str(text))
    except OSError as error:
        if error.errno in allowed:
            return False
        raise Wrong(f"'{text}' to {path}: {error.strerror}") from error
    return True


def expect(path, text):
    found = read(path).strip()
    if found != str(text):
        raise Wrong(f"{path} is '{found}' after '{text}' was written")


def is_cello():
    return "[cello]" in read(f"{QUEUE}/scheduler")


class Storm:
    def __init__(self, seed, cgroups):
        self.dice = random.Random(seed)
        self.cgroups = cgroups
        self.served = 0

    def switch(self):
        if is_cello():
            self.served += sum(int(read(f"{IOSCHED}/{c}_requests")) for c in CLASSES[:3])
        name = self.dice.choice(["cello", "cello", "cello", "none", "mq-deadline", "bfq"])
        write(f"{QUEUE}/scheduler", name)
        if f"[{name}]" not in read(f"{QUEUE}/scheduler"):
            raise Wrong(f"the scheduler is not {name}")

    def setting(self):
        if not is_cello():
            return
        kind = self.dice.randrange(5)
        if kind == 0:
            path, value = "round_us", self.dice.randint(1000, 500000)
        elif kind == 1:
            path, value = "in_flight", self.dice.choice([0, 1, 2, 8, 1024])
        elif kind == 2:
            path, value = "in_flight_us", self.dice.choice([0, 1, 2000, 10000000])
        elif kind == 3:
            path, value = "deadline_ms", self.dice.randint(1, 1000)
        else:
            self.weight()
            return
        write(f"{IOSCHED}/{path}", value)
        expect(f"{IOSCHED}/{path}", value)

    def weight(self):
        names = [f"{IOSCHED}/weight_{c}" for c in CLASSES[:3]]
        chosen = self.dice.choice(names)
        value = self.dice.choice([0, 1, 100, self.dice.randint(0, 10000)])
        others = sum(int(read(name)) for name in names if name != chosen)
        allowed = [] if value or others else [errno.EINVAL]
        if write(chosen, value, *allowed) == bool(allowed):
            raise Wrong("all weights became 0")

    def cgroup(self):
        path = self.dice.choice(self.cgroups)
        if self.dice.randrange(2):
            write(f"{path}/io.cello.class", self.dice.choice(CLASSES))
        else:
            write(f"{path}/io.cello.weight", self.dice.randint(1, 10000))

    def threads(self):
        return [int(t) for path in self.cgroups for t in read(f"{path}/cgroup.threads").split()]

    def priority(self):
        threads = self.threads()
        if not threads:
            return
        base = self.dice.choice([2, 2, 2, 3])
        hint = 0x200 | self.dice.randrange(4) << 6 | self.dice.randrange(64)
        value = base << 13 | hint << 3 | self.dice.randrange(8)
        thread = self.dice.choice(threads)
        if libc.syscall(IOPRIO_SET, 1, thread, value) and ctypes.get_errno() != errno.ESRCH:
            raise Wrong(f"ioprio_set: {os.strerror(ctypes.get_errno())}")

    def move(self):
        threads = self.threads()
        if threads:
            to = self.dice.choice(self.cgroups)
            # It may have ended by now.
            write(f"{to}/cgroup.procs", self.dice.choice(threads), errno.ESRCH)

    def come_and_go(self):
        path = f"{self.dice.choice(self.cgroups)}/brief"
        try:
            os.mkdir(path)
        except FileExistsError:
            os.rmdir(path)

    def tags(self):
        write(f"{QUEUE}/nr_requests", self.dice.randint(4, 64))

    def busy(self):
        fault = self.dice.choice(["busy_every", "requeue_every"])
        write(f"{DISK}/{fault}", self.dice.choice([0, 2, 3, 7]))

    def cache(self):
        write("/proc/sys/vm/drop_caches", 1)

    def look(self):
        if is_cello():
            for name in ["scheduled", "pending", "groups", "realtime"]:
                read(f"{DEBUG}/{name}")
            for name in os.listdir(IOSCHED):
                read(f"{IOSCHED}/{name}")
        for path in self.cgroups:
            read(f"{path}/io.stat")

    def faults(self):
        return [int(read(f"{DISK}/{name}")) for name in ["busies", "requeues"]]

    def enough(self):
        return self.served > ENOUGH_SERVED and min(self.faults()) > ENOUGH_FAULTS

    def run(self, switches, seconds):
        # The kernel is not to tell of each time that the cache is dropped.
        write("/proc/sys/vm/drop_caches", 4)
        edits = [self.setting] * 4 + [self.cgroup] * 2 + [self.priority] * 4
        edits += [self.move, self.come_and_go, self.tags, self.busy, self.cache, self.look]
        end = time.monotonic() + seconds
        while switches > 0 or time.monotonic() < end or not self.enough():
            if switches <= 0 and time.monotonic() > end + MOST_SECONDS:
                busies, requeues = self.faults()
                raise Wrong(f"{self.served} requests, {busies} refused, {requeues} given back: too few")
            switches -= 1
            self.switch()
            for _ in range(self.dice.randrange(12)):
                self.dice.choice(edits)()
                time.sleep(self.dice.choice([0, 0, 0.001, 0.03]))


def main():
    switches, seconds, seed = (int(word) for word in sys.argv[1:4])
    cgroups = sys.argv[4:]
    storm = Storm(seed, cgroups)
    try:
        storm.run(switches, seconds)
    except (Wrong, OSError) as error:
        print(error)
        return 1
    print(storm.served)
    return 0


sys.exit(main())
