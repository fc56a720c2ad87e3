"""What is measured: a topicfs daemon, libfuse's passthrough example, a native directory.

    with Workspace(parent, build) as work:
        mount = work.topicfs()                  # a daemon on a data directory of its own
        with mount.topic(flush="os") as topic:
            work.client("append", path=topic.log, n=1000)

Leaving the workspace ends every daemon (by its pid), unmounts, and removes the directory.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

PASSTHROUGH_SOURCE = "/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c"
CLOCK_TICK = os.sysconf("SC_CLK_TCK")


class Failure(Exception):
    """The benchmark can't go on; the text says why."""


def wait_until(seconds, what, condition, pause=0.001):
    """Waits for a condition, with a bound."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"not within {seconds} s: {what}")
        time.sleep(pause)


def mounted(path):
    try:
        return os.stat(path).st_dev != os.stat(os.path.dirname(path)).st_dev
    except OSError:
        return False


def busy_share(seconds=0.1):
    """The part of all cores that was busy for that long, 0 to 1."""

    def ticks():
        with open("/proc/stat", encoding="utf-8") as stat:
            fields = [int(field) for field in stat.readline().split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    total, idle = ticks()
    time.sleep(seconds)
    total_after, idle_after = ticks()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def timed_shell(command, *arguments):
    """Runs a line of shell with "$1", "$2"...; the seconds that it took."""
    begin = time.monotonic()
    subprocess.run(["sh", "-c", command, "sh", *arguments], check=True)
    return time.monotonic() - begin


def process_cpu_seconds(pid):
    """User and system time so far."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICK


class Daemon:
    """A process that serves a mount, in the foreground."""

    def __init__(self, command, mountpoint, log_path):
        os.makedirs(mountpoint, exist_ok=True)
        self.mountpoint = mountpoint
        self.log_path = log_path
        begin = time.monotonic()
        with open(log_path, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                command + [mountpoint], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        wait_until(120, f"a mount at {mountpoint}", self._answers)
        self.mount_seconds = time.monotonic() - begin

    def _answers(self):
        if self.process.poll() is not None:
            with open(self.log_path, encoding="utf-8") as log:
                raise Failure("a daemon ended while starting:\n" + log.read()[-2000:])
        return mounted(self.mountpoint)

    def release(self):
        """After the stop: what the daemon left on its mount point goes."""

    def _unmount(self):
        subprocess.run(
            ["fusermount3", "-u", "-z", self.mountpoint],
            check=False,
            stderr=subprocess.DEVNULL,
        )

    def stop(self):
        """A clean stop."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._unmount()

    def kill(self):
        """As a crash of the process."""
        self.process.kill()
        self.process.wait()
        self._unmount()

    def cpu_seconds(self):
        return process_cpu_seconds(self.process.pid)

    def resident_mib(self, field="VmRSS"):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) / 1024
        raise Failure(f"no {field}")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Topic:
    """A topic of one partition unless told otherwise."""

    def __init__(self, mount, name):
        self.path = os.path.join(mount.mountpoint, "topics", name)
        self.data = os.path.join(mount.data, name + "-0")
        self.partition = os.path.join(self.path, "0")
        self.log = os.path.join(self.partition, "log")
        self.follow = os.path.join(self.partition, "follow", "latest")
        self.at = os.path.join(self.partition, "at")
        self.segments = os.path.join(self.partition, "segments")

    def configure(self, **settings):
        if settings:
            with open(os.path.join(self.path, "config.json"), "w", encoding="utf-8") as file:
                file.write(json.dumps(settings))


class Topicfs(Daemon):
    def __init__(self, binary, data, mountpoint, log_path, prefix=(), **options):
        self.data = data
        self._binary = binary
        self._names = 0
        options = {"data": data, **options}
        text = ",".join(f"{name}={value}" for name, value in options.items())
        command = [*prefix, binary, "mount", "-f", "-o", text]
        super().__init__(command, mountpoint, log_path)

    def release(self):
        """After the stop: the directory can be removed again."""
        command = [self._binary, "umount", "--release", self.mountpoint]
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL)

    def new_topic(self, **settings):
        self._names += 1
        topic = Topic(self, f"bench{os.getpid()}-{self._names}")
        os.mkdir(topic.path)
        topic.configure(**settings)
        return topic

    def delete_topic(self, topic):
        os.rmdir(topic.path)
        wait_until(30, f"the removal of {topic.data}", lambda: not os.path.exists(topic.data))

    @contextlib.contextmanager
    def topic(self, **settings):
        topic = self.new_topic(**settings)
        yield topic
        self.delete_topic(topic)


class Passthrough(Daemon):
    """The example with its default of write-through; cache= as named."""

    def __init__(self, binary, source, cache, mountpoint, log_path):
        os.makedirs(source, exist_ok=True)
        self.source = source
        self._names = 0
        command = [binary, "-f", "-o", f"source={source},cache={cache}"]
        super().__init__(command, mountpoint, log_path)

    @contextlib.contextmanager
    def file(self):
        """Of a name of its own, as the kernel may remember another for a second."""
        self._names += 1
        name = f"file{self._names}"
        yield os.path.join(self.mountpoint, name)
        os.unlink(os.path.join(self.source, name))


class Workspace:
    """A directory for one run, and the daemons in it."""

    def __init__(self, parent, binary, client):
        self.binary = binary
        self.client_binary = client
        self.path = tempfile.mkdtemp(prefix="topicfs-bench.", dir=parent)
        self.native = os.path.join(self.path, "native")
        os.mkdir(self.native)
        self._daemons = []
        self._passthroughs = {}
        self._passthrough_binary = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for daemon in self._daemons:
            daemon.stop()
            daemon.release()
        shutil.rmtree(self.path)

    def client(self, mode, **options):
        """Runs bench_client; what it printed."""
        command = [self.client_binary, mode]
        command += [f"{name}={value}" for name, value in options.items()]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def log_path(self, name):
        return os.path.join(self.path, name + ".log")

    def topicfs(self, name="topicfs", **options):
        """A daemon; on the same name later: on the same data."""
        directory = os.path.join(self.path, name)
        os.makedirs(directory, exist_ok=True)
        daemon = Topicfs(
            self.binary,
            os.path.join(directory, "data"),
            os.path.join(directory, "mount"),
            self.log_path(name),
            **options,
        )
        self._daemons.append(daemon)
        return daemon

    def passthrough(self, cache):
        """The example, built from the installed documentation at its first use."""
        if self._passthrough_binary is None:
            self._passthrough_binary = os.path.join(self.path, "passthrough_ll")
            self._build_passthrough()
        if cache not in self._passthroughs:
            directory = os.path.join(self.path, "passthrough-" + cache)
            os.makedirs(directory)
            daemon = Passthrough(
                self._passthrough_binary,
                os.path.join(directory, "source"),
                cache,
                os.path.join(directory, "mount"),
                self.log_path("passthrough-" + cache),
            )
            self._daemons.append(daemon)
            self._passthroughs[cache] = daemon
        return self._passthroughs[cache]

    def _build_passthrough(self):
        if not os.path.exists(PASSTHROUGH_SOURCE):
            raise Failure(f"{PASSTHROUGH_SOURCE} is missing: apt-get install libfuse3-dev")
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "fuse3"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        subprocess.run(
            ["cc", "-O2", "-w", "-o", self._passthrough_binary, PASSTHROUGH_SOURCE] + flags,
            check=True,
        )
