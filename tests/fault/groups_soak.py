#!/usr/bin/env python3
"""Members of a group come and go, on three nodes, for minutes; run by hand.

    TOPICFS_CLUSTER_DIR=DIR mountscripts/cluster up 3
    tests/fault/groups_soak.py DIR [SECONDS]        default: 300

A topic of 32 partitions, a line to each of them in turn all the time, two members that stay
and about 50 joins and 50 leaves a minute. Every 50 ms the list of members is looked at: how
long was a partition without an owner at most. At the end: every acknowledged line was handed
out, how many more than once. Exits 1 if a line is missing, or a partition was without an owner
for longer than the session time-out.
"""
import collections
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

PARTITIONS = 32
PERIOD_S = 1.2  # of a join and a leave: 50 a minute
SESSION_S = 10  # the default of group_session_timeout_ms

READER = r"""
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
fd = os.open(sys.argv[1], os.O_RDONLY)
out = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
at = 0
while True:
    block = os.pread(fd, 4096, at)
    end = block.find(b"\n") + 1
    os.write(out, block[:end])
    at += end
"""


class Soak:
    def __init__(self, folder, seconds):
        self.folder = folder
        self.topic = f"soak{os.getpid()}"
        self.group = self.topic
        self.until = time.monotonic() + seconds
        self.files = []
        self.acknowledged = []
        self.worst = 0
        self.looks = 0
        self.joins = 0

    def mount(self, node):
        return os.path.join(self.folder, f"n{node}")

    def make(self):
        path = os.path.join(self.mount(1), "topics", self.topic)
        os.mkdir(path)
        for partition in range(1, PARTITIONS):
            os.mkdir(os.path.join(path, str(partition)))

    def going(self):
        return time.monotonic() < self.until

    def reader(self, node):
        stream = os.path.join(self.mount(node), "groups", self.group, "read", self.topic)
        out = os.path.join(self.folder, "run", f"{self.topic}-{len(self.files)}")
        self.files.append(out)
        return subprocess.Popen([sys.executable, "-c", READER, stream, out])

    def write(self):
        number = 0
        while self.going():
            path = os.path.join(self.mount(number % 3 + 1), "topics", self.topic,
                                str(number % PARTITIONS), "log")
            line = b"line %d\n" % number
            with open(path, "ab", buffering=0) as log:
                log.write(line)
            self.acknowledged.append(line)
            number += 1
            time.sleep(0.005)

    def members(self):
        path = os.path.join(self.mount(3), "groups", self.group, "members")
        with open(path, encoding="utf-8") as file:
            return json.load(file)["members"]

    def watch(self):
        since = {}
        while self.going():
            now = time.monotonic()
            owned = [p for member in self.members() for p in member["partitions"]]
            if len(set(owned)) != len(owned):
                sys.exit("a partition with two owners")
            for partition in range(PARTITIONS):
                if partition in owned:
                    since.pop(partition, None)
                else:
                    self.worst = max(self.worst, now - since.setdefault(partition, now))
            self.looks += 1
            time.sleep(0.05)

    def churn(self):
        guests = []
        while self.going():
            guests.append(self.reader(random.randint(1, 3)))
            self.joins += 1
            if len(guests) > 3:
                guest = guests.pop(random.randrange(len(guests)))
                guest.send_signal(random.choice([signal.SIGTERM, signal.SIGKILL]))
                guest.wait()
            time.sleep(PERIOD_S)
        return guests

    def handed_out(self):
        done = collections.Counter()
        for path in self.files:
            if os.path.exists(path):
                with open(path, "rb") as file:
                    done.update(file)
        return done

    def run(self):
        self.make()
        staying = [self.reader(1), self.reader(2)]
        while len({p for m in self.members() for p in m["partitions"]}) < PARTITIONS:
            time.sleep(0.05)
        threads = [threading.Thread(target=self.write), threading.Thread(target=self.watch)]
        for thread in threads:
            thread.start()
        staying += self.churn()
        for thread in threads:
            thread.join()
        deadline = time.monotonic() + 60
        while set(self.acknowledged) - set(self.handed_out()) and time.monotonic() < deadline:
            time.sleep(0.2)
        for reader in staying:
            reader.kill()
            reader.wait()
        return self.report()

    def report(self):
        done = self.handed_out()
        missing = set(self.acknowledged) - set(done)
        again = sum(done.values()) - len(done)
        print(f"{self.joins} joins, {self.looks} looks at {PARTITIONS} partitions: the longest "
              f"without an owner {self.worst:.2f} s; {len(self.acknowledged)} lines, "
              f"{len(missing)} missing, {again} handed out again")
        return 1 if missing or self.worst > SESSION_S else 0


if __name__ == "__main__":
    sys.exit(Soak(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 300).run())
