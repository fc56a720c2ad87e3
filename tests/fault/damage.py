"""Every single file of a data directory removed, emptied, truncated and bit-flipped in turn.

    damage.py TOPICFS WORKDIR [FILTER]

One data directory is prepared; each case works on a copy of it with one file damaged:
  - `topicfs check` finds it; nothing crashes;
  - the mount works, or refuses with a reason; cluster/problems and the log name the file;
  - no byte is ever wrong: each offset reads as its line, or as an error;
  - lines outside of the damaged segment are there, new lines get new offsets;
  - `check --repair` leaves a directory that check calls clean (or says what stays damaged), and
    gives back every line whose text is whole.
"""
import errno
import glob
import os
import shutil
import signal
import subprocess
import sys
import time

BIN, WORK = sys.argv[1], sys.argv[2]
FILTER = sys.argv[3] if len(sys.argv) > 3 else ""
SLOW = int(os.environ.get("TOPICFS_TEST_SLOW", "1"))
MNT = WORK + "/mnt"
PARTITIONS = [("t", 0), ("t", 1), ("keyed", 0)]
LINES = 60
# Not data: the lock, the log of messages, and files whose absence only costs time.
NOT_DATA = ("lock", "topicfs.log")


def line(topic, partition, n):
    return b"%s%d\tmessage %d %s\n" % (topic.encode(), partition, n, b"y" * 80)


class Mount:
    def __init__(self, data):
        self.log_path = data + ".log"
        self.log = open(self.log_path, "wb")
        self.daemon = subprocess.Popen(
            [BIN, "mount", "-f", "-o", "data=%s,segment_bytes=1024" % data, MNT],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        deadline = time.time() + 20 * SLOW
        self.up = False
        while self.daemon.poll() is None:
            if os.path.isdir(MNT + "/topics"):
                self.up = True
                return
            assert time.time() < deadline, "neither mounted nor refused"
            time.sleep(0.003)   # the pace of looking

    def text(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def stop(self):
        if self.up:
            self.daemon.send_signal(signal.SIGTERM)
        status = self.daemon.wait(20 * SLOW)
        self.log.close()
        assert status >= 0, "killed by signal %d" % -status
        assert not self.up or status == 0, "ended with status %d" % status
        return status

    def kill(self):
        self.daemon.kill()
        self.daemon.wait()
        subprocess.run(["fusermount3", "-u", "-z", MNT], stderr=subprocess.DEVNULL)


def check(data, *options):
    done = subprocess.run([BIN, "check", *options, data], capture_output=True, text=True,
                          timeout=30 * SLOW, errors="replace")
    assert done.returncode in (0, 1, 4, 8), (done.returncode, done.stdout, done.stderr)
    return done.returncode, done.stdout + done.stderr


def read_all(path):
    """What a reader gets until the end or an error, in pieces as cat would read."""
    got = b""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as e:
        return got, e.errno
    try:
        while True:
            part = os.read(fd, 65536)
            if not part:
                return got, 0
            got += part
    except OSError as e:
        return got, e.errno
    finally:
        os.close(fd)


def prepare(data):
    mount = Mount(data)
    assert mount.up, mount.text()
    for topic in "t", "keyed":
        os.mkdir("%s/topics/%s" % (MNT, topic))
    os.mkdir(MNT + "/topics/t/1")
    os.chmod(MNT + "/topics/keyed", 0o751)
    for topic, partition in PARTITIONS:
        fd = os.open("%s/topics/%s/%d/log" % (MNT, topic, partition), os.O_WRONLY | os.O_APPEND)
        for n in range(0, LINES, 3):
            os.write(fd, b"".join(line(topic, partition, k) for k in range(n, n + 3)))
        os.close(fd)
    mount.stop()
    assert check(data)[0] == 0, check(data)


def flip(path, where):
    with open(path, "r+b") as f:
        f.seek(where)
        byte = f.read(1)[0]
        f.seek(where)
        f.write(bytes([byte ^ 0x10]))


def damages(path):
    size = os.path.getsize(path)
    yield "removed", lambda p: os.unlink(p)
    if size > 0:
        yield "emptied", lambda p: os.truncate(p, 0)
        yield "halved", lambda p: os.truncate(p, size // 2)
        yield "short by one", lambda p: os.truncate(p, size - 1)
        for where in sorted({0, size // 3, size // 2, size - 1}):
            yield "flipped at %d" % where, lambda p, w=where: flip(p, w)


def read_everything():
    """For each partition the offsets that could be read; asserts that no byte is wrong."""
    good = {}
    for topic, partition in PARTITIONS:
        base = "%s/topics/%s/%d" % (MNT, topic, partition)
        good[topic, partition] = have = set()
        if not os.path.isdir(base):
            continue
        for n in range(LINES):
            got, error = read_all("%s/at/%d-%d" % (base, n, n))
            if got:
                assert got == line(topic, partition, n), "offset %d reads %r" % (n, got)
                have.add(n)
            elif error:
                assert error in (errno.EIO, errno.ESTALE, errno.ENOENT), errno.errorcode[error]
        whole, error = read_all(base + "/log")
        wanted = [line(topic, partition, n) for n in range(LINES)]
        lines = whole.splitlines(keepends=True)
        known = set(wanted)
        for k, text in enumerate(lines):
            if k == len(lines) - 1 and not text.endswith(b"\n"):
                assert error and any(w.startswith(text) for w in wanted), text
            elif text != b"new\n" or k != len(lines) - 1:
                assert text in known, "log of %s-%d has %r" % (topic, partition, text)
        follow = subprocess.run(["timeout", "5", "cat", "%s/follow/0-%d" % (base, LINES - 1)],
                                capture_output=True) if len(have) == LINES else None
        assert follow is None or follow.stdout == b"".join(wanted), "follow differs"
    return good


def damaged_range(relative):
    """(topic, partition), first and end offset of the segment that the file belongs to."""
    directory, name = os.path.split(relative)
    for topic, partition in PARTITIONS:
        if os.path.basename(directory) == "%s-%d" % (topic, partition) and name[:20].isdigit():
            return (topic, partition), int(name[:20])
    return None, None


def segment_end(data, relative):
    bases = sorted(int(os.path.basename(p)[:20])
                   for p in glob.glob(os.path.join(data, os.path.dirname(relative), "*.log")))
    base = int(os.path.basename(relative)[:20])
    later = [b for b in bases if b > base]
    return later[0] if later else LINES


def appends_work(good):
    for (topic, partition), have in good.items():
        base = "%s/topics/%s/%d" % (MNT, topic, partition)
        if not os.path.isdir(base):
            continue
        fd = os.open(base + "/log", os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, b"new\n")
        finally:
            os.close(fd)
        got, error = read_all("%s/at/last1" % base)
        assert got == b"new\n", (got, error)
        got, error = read_all("%s/at/%d" % (base, LINES))
        assert got == b"new\n", "the new line is not at offset %d: %r, %s" % (LINES, got, error)


def one_case(source, relative, name, damage):
    data = WORK + "/copy"
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(source, data, symlinks=True)
    damage(os.path.join(data, relative))
    base = os.path.basename(relative)
    place, first = damaged_range(relative)
    # A producers file only saves reading the entries again: whatever it says is rebuilt.
    is_log_file = place is not None and not relative.endswith(".producers")

    code, text = check(data)
    if is_log_file:
        assert code == 4, "check says %d: %s" % (code, text)
        assert base[:20] in text, "check does not name the file: " + text
    elif base not in NOT_DATA and name.startswith("flipped"):
        assert code != 0, "check finds nothing: " + text

    mount = Mount(data)
    try:
        if not mount.up:
            status = mount.stop()
            assert status == 1, "refused with status %d" % status
            assert base in mount.text(), "refused without naming the file: " + mount.text()
            assert not is_log_file, "a damaged segment stopped the whole mount"
        else:
            good = read_everything()
            if is_log_file:
                end = segment_end(source, relative)
                for which, have in good.items():
                    lost = set(range(LINES)) - have
                    allowed = set(range(first, end)) if which == place else set()
                    assert lost <= allowed, "%s: lost %s besides %d to %d" % (which, lost, first, end)
                with open(MNT + "/cluster/problems") as f:
                    problems = f.read()
                assert base[:20] in problems, "problems does not name the file: %r" % problems
                assert base[:20] in mount.text(), "the log does not name the file"
                appends_work(good)
            elif base not in NOT_DATA:
                for which, have in good.items():
                    assert len(have) == LINES, "%s: only %d lines" % (which, len(have))
                appends_work(good)
            mount.stop()
            mount.up = False
    except BaseException:
        mount.kill()
        raise

    code, text = check(data, "--repair")
    assert code in (0, 1, 4), text
    again, text_again = check(data)
    assert again == (4 if code == 4 else 0), "after the repair (%d) check says %d: %s" % (
        code, again, text_again)
    if code == 4:
        assert not is_log_file or not base.endswith(".index"), \
            "the text is whole, the index can be rebuilt: " + text
    mount = Mount(data)
    try:
        assert mount.up or not is_log_file, mount.text()
        if mount.up:
            good = read_everything()
            if is_log_file and base.endswith(".index"):
                for which, have in good.items():
                    assert len(have) == LINES, "%s: only %d lines after the repair" % (which, len(have))
            mount.stop()
            mount.up = False
        else:
            mount.stop()
    except BaseException:
        mount.kill()
        raise


def main():
    source = WORK + "/prepared"
    os.makedirs(MNT, exist_ok=True)
    prepare(source)
    files = sorted(os.path.relpath(os.path.join(d, n), source)
                   for d, _, names in os.walk(source) for n in names)
    # Of the closed segments two per partition are enough: one in the middle, and the last.
    chosen = []
    for relative in files:
        place, first = damaged_range(relative)
        if place is None:
            chosen.append(relative)
            continue
        bases = sorted({int(os.path.basename(p)[:20]) for p in files if damaged_range(p)[0] == place})
        if place == ("t", 0) and first in (bases[0], bases[len(bases) // 2], bases[-1]):
            chosen.append(relative)
    cases = failed = 0
    for relative in chosen:
        for name, damage in damages(os.path.join(source, relative)):
            title = "%s %s" % (relative, name)
            if FILTER not in title:
                continue
            cases += 1
            try:
                one_case(source, relative, name, damage)
            except (AssertionError, OSError, subprocess.SubprocessError) as e:
                failed += 1
                print("FAILED %s: %s: %s" % (title, type(e).__name__, str(e)[:600]), flush=True)
    print("%d cases, %d failed" % (cases, failed))
    assert cases > 20 or FILTER
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    try:
        main()
    finally:
        subprocess.run(["fusermount3", "-u", "-z", MNT], stderr=subprocess.DEVNULL)
