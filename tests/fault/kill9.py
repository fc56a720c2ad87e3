"""Random kill -9 of the daemon under parallel load, each followed by a new mount and a check.

    kill9.py TOPICFS WORKDIR ROUNDS [SEED]

Writers append numbered lines, in writes of several lines, and note what was acknowledged; one
worker makes and deletes topics. After each kill: every acknowledged line is there, whole, once,
in its writer's order; a write that was not acknowledged is there as a whole or not at all.
"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

BIN, WORK, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(1 << 30)
DATA, MNT = WORK + "/data", WORK + "/mnt"
TOPICS = {
    "ack": '{"segment_bytes": 30000}',
    "interval": '{"flush": "interval", "flush_ms": 20, "segment_bytes": 30000}',
    "os": '{"flush": "os", "acks": 1, "segment_bytes": 30000}',
}
WRITERS = [("ack", 0), ("ack", 0), ("interval", 0), ("os", 0), ("os", 1)]
LINE = re.compile(rb"w(\d+) b(\d+) (\d+)/(\d+) [a-z]*\n")


running = []


def start(wait=True):
    log = open(WORK + "/daemon.log", "ab")
    daemon = subprocess.Popen([BIN, "mount", "-f", "-o", "data=" + DATA, MNT],
                              stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    running[:] = [daemon]
    deadline = time.time() + 30
    while wait and not os.path.isdir(MNT + "/topics"):
        assert daemon.poll() is None, "the daemon ended: see its log"
        assert time.time() < deadline, "no mount in 30 s"
        time.sleep(0.005)   # the pace of looking
    return daemon


def kill(daemon):
    """As a crash; a thread of the daemon that the kernel does not let go is found here."""
    daemon.kill()
    try:
        daemon.wait(10)
    except subprocess.TimeoutExpired:
        raise AssertionError("killed, but not gone: a thread is stuck in the kernel: " +
                             stacks(daemon.pid)) from None
    unmount()


def stacks(pid):
    found = []
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/wchan" % (pid, task)) as wchan:
            found.append(wchan.read())
    return ", ".join(found)


def unmount():
    subprocess.run(["fusermount3", "-u", "-z", MNT], stderr=subprocess.DEVNULL)


class Writer:
    """One appending process; what it was told was stored comes back through a file."""

    def __init__(self, number, topic, partition):
        self.number, self.topic, self.partition = number, topic, partition
        self.next_batch = 0
        self.sizes = {}      # batch -> lines in it
        self.acknowledged = set()
        self.verified = set()  # acknowledged, and found where they belong

    def path(self):
        return "%s/topics/%s/%d/log" % (MNT, self.topic, self.partition)

    def batch(self, rng, number):
        count = rng.choice([1, 1, 2, 5, 20])
        pad = "x" * rng.choice([0, 10, 100, 2000])
        return count, "".join("w%d b%d %d/%d %s\n" % (self.number, number, i, count, pad)
                              for i in range(count)).encode()

    def run(self, seed):
        """In the child: until the mount dies. Notes "started" before and "done" after."""
        rng = random.Random(seed)
        notes = os.open("%s/notes.%d" % (WORK, self.number),
                        os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        number, fd = self.next_batch, -1
        while True:
            count, data = self.batch(rng, number)
            os.write(notes, b"s %d %d\n" % (number, count))
            try:
                if fd < 0 or rng.random() < 0.3:
                    if fd >= 0:
                        os.close(fd)
                    fd = os.open(self.path(), os.O_WRONLY | os.O_APPEND)
                written = os.write(fd, data)
            except OSError:
                os._exit(0)
            if written != len(data):
                os.write(notes, b"short %d\n" % number)
                os._exit(1)
            os.write(notes, b"d %d\n" % number)
            number += 1

    def collect(self):
        with open("%s/notes.%d" % (WORK, self.number)) as notes:
            for note in notes:
                what, *rest = note.split()
                assert what != "short", "a write of %s was short" % self.path()
                if what == "s":
                    self.sizes[int(rest[0])] = int(rest[1])
                    self.next_batch = int(rest[0]) + 1
                else:
                    self.acknowledged.add(int(rest[0]))


def make_and_delete_topics(first):
    """In the child: a few topics a round, of which most are deleted again."""
    notes = open(WORK + "/notes.topics", "w")
    for n in range(first, first + 10):
        try:
            os.mkdir("%s/topics/made%d" % (MNT, n))
            print("made", n, file=notes, flush=True)
            if n % 5:
                print("deleting", n, file=notes, flush=True)
                os.rmdir("%s/topics/made%d" % (MNT, n))
                print("deleted", n, file=notes, flush=True)
        except FileExistsError:
            pass   # half made when the last daemon was killed: there as a whole
        except OSError:
            break
    os._exit(0)


def check_topics(state):
    names = set(os.listdir(MNT + "/topics"))
    with open(WORK + "/notes.topics") as notes:
        for note in notes:
            what, n = note.split()
            state[int(n)] = what
    for n, what in state.items():
        present = "made%d" % n in names
        assert not (what == "made" and not present), "topic made%d was lost" % n
        assert not (what == "deleted" and present), "topic made%d came back" % n
    for n in [n for n, what in state.items() if what == "deleting"]:
        if "made%d" % n in names:
            os.rmdir("%s/topics/made%d" % (MNT, n))
        state[n] = "deleted"


def check_logs(writers, ends, whole):
    """Checks what came since the last call (ends: where that ended), or the whole logs."""
    for topic, partition in sorted(set(WRITERS)):
        base = "%s/topics/%s/%d" % (MNT, topic, partition)
        begin = 0 if whole else ends.get((topic, partition), 0)
        with open("%s/at/%d" % (base, begin), "rb") as log:
            lines = log.readlines()
        ends[topic, partition] = begin + len(lines)
        with open(base + "/state") as state:
            assert json.load(state)["log_end_offset"] == begin + len(lines)
        batches = {}
        for line in lines:
            match = LINE.fullmatch(line)
            assert match, "torn line in %s-%d: %r" % (topic, partition, line[:200])
            writer, batch, index, count = map(int, match.groups())
            seen = batches.setdefault(writer, {}).setdefault(batch, [])
            assert len(seen) == index, "line %r twice or out of order" % line[:60]
            seen.append(count)
        for writer in writers:
            if (writer.topic, writer.partition) != (topic, partition):
                assert writer.number not in batches, "a line in another partition"
                continue
            mine = batches.get(writer.number, {})
            order = list(mine)
            assert order == sorted(order), "writer %d: order changed" % writer.number
            for batch, seen in mine.items():
                assert len(seen) == seen[0] == writer.sizes[batch], \
                    "writer %d batch %d: %d of %d lines" % (writer.number, batch, len(seen), seen[0])
            lost = writer.acknowledged - set(mine)
            if not whole:
                again = writer.verified & set(mine)
                assert not again, "writer %d: once more: %s" % (writer.number, sorted(again)[:5])
                lost -= writer.verified
            assert not lost, "writer %d: acknowledged and lost: %s" % (writer.number, sorted(lost)[:5])
            writer.verified |= set(mine)


def one_round(rng, writers, topics, ends, whole):
    daemon = start(wait=rng.random() > 0.1)
    if not os.path.isdir(MNT + "/topics"):
        time.sleep(rng.uniform(0, 0.05))   # killed while it starts and recovers
        kill(daemon)
        daemon = start()
    check_logs(writers, ends, whole)
    check_topics(topics)
    pids = []
    for writer in writers:
        seed = rng.random()
        pid = os.fork()
        if pid == 0:
            writer.run(seed)
        pids.append(pid)
    pid = os.fork()
    if pid == 0:
        make_and_delete_topics(max(topics, default=0) + 1)
    pids.append(pid)
    time.sleep(rng.uniform(0.01, 0.15))   # killed at any moment of their work
    kill(daemon)
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        assert status == 0, "a writer failed"
    for writer in writers:
        writer.collect()


def main():
    print("seed %d" % SEED, flush=True)
    rng = random.Random(SEED)
    daemon = start()
    for name, config in TOPICS.items():
        os.mkdir("%s/topics/%s" % (MNT, name))
        with open("%s/topics/%s/config.json" % (MNT, name), "w") as file:
            file.write(config)
    os.mkdir(MNT + "/topics/os/1")
    kill(daemon)
    writers = [Writer(n, *place) for n, place in enumerate(WRITERS)]
    open(WORK + "/notes.topics", "w").close()
    topics, ends = {}, {}
    for n in range(ROUNDS):
        try:
            one_round(rng, writers, topics, ends, whole=n % 20 == 19)
        except BaseException:
            print("round %d of seed %d" % (n, SEED), flush=True)
            raise
    daemon = start()
    check_logs(writers, ends, whole=True)
    check_topics(topics)
    with open(MNT + "/cluster/problems") as problems:
        text = problems.read()
    assert text == "", "problems after crashes alone: " + text
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(20) == 0
    done = sum(len(w.acknowledged) for w in writers)
    assert done > ROUNDS, "hardly anything was written"
    print("%d rounds, %d acknowledged writes, %d topics" % (ROUNDS, done, len(topics)))


if __name__ == "__main__":
    try:
        main()
    finally:
        for left in running:
            left.kill()
        # By force: the test may have failed because something hangs.
        subprocess.run(["umount", "-f", MNT], stderr=subprocess.DEVNULL)
        unmount()
