"""Takes from a data directory what a power cut may take: in a partition's directory, all that
was not flushed by what tests/fault/power.c noted; and the machine has another boot id then.

    power.py DATA PARTITION LOG
"""
import glob
import json
import os
import sys

data, partition, log = sys.argv[1:4]
flushed = {}
if os.path.exists(log):
    for line in open(log):
        size, path = line.rstrip("\n").split(" ", 1)
        flushed[path] = int(size)
lost = 0
for path in glob.glob("%s/%s/*.*" % (os.path.realpath(data), partition)):
    size = os.path.getsize(path)
    if path not in flushed:
        os.unlink(path)
        lost += size
    elif flushed[path] < size:
        os.truncate(path, flushed[path])
        lost += size - flushed[path]
marker = data + "/running.json"
with open(marker) as file:
    running = json.load(file)
running["boot_id"] = "00000000-0000-0000-0000-000000000000"
with open(marker, "w") as file:
    json.dump(running, file)
print("%s: %d bytes are lost" % (data, lost))
