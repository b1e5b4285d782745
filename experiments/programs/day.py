"""A day in a hundred seconds: night, ramp, burst, noisy neighbour; one server setting.

usage: day.py ROUNDHOUSE SECONDS [FLAG OF SERVE ...]

Server and generator have a core each. Requests compute for a millisecond and have a connection each;
they arrive as a Poisson process whose rate follows the day, the same one for every setting. A request
is on time if it is carried out within the deadline after its arrival. The neighbour is a busy process
on the server's core. The last line of the output is a JSON object.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

import hlog

DEADLINE_MS = 100
PATH = "work?ms=1"
# Requests a second that one core carries out, about: a connection each takes its part.
CAPACITY = 900
# Hours and the rates at their beginnings, as shares of the capacity; linear in between.
DAY = [(0, 0.05), (6, 0.05), (9, 0.7), (12, 0.7), (12.01, 1.8), (13, 1.8), (13.01, 0.7), (18, 0.7),
       (22, 0.05), (24, 0.05)]
NEIGHBOUR = (15, 16)
NULL = subprocess.DEVNULL


def rate(hour):
    """Requests a second at this hour."""
    for (start, low), (end, high) in zip(DAY, DAY[1:]):
        if start <= hour <= end:
            return CAPACITY * (low + (high - low) * (hour - start) / (end - start))
    return 0.0


def arrivals(seconds):
    """Times of arrival (s), by thinning."""
    draw, most, now, found = random.Random(1), CAPACITY * max(high for _, high in DAY), 0.0, []
    while (now := now + draw.expovariate(most)) < seconds:
        if draw.random() * most < rate(now / seconds * 24):
            found.append(now)
    return found


def tasks(root):
    """Threads of a process and its descendants."""
    total = 0
    try:
        total += len(os.listdir(f"/proc/{root}/task"))
        for thread in os.listdir(f"/proc/{root}/task"):
            with open(f"/proc/{root}/task/{thread}/children") as children:
                total += sum(tasks(child) for child in children.read().split())
    except OSError:
        pass  # it has ended
    return total


def on_time(log):
    """Requests that were carried out within the deadline."""
    return sum(count for ms, count in hlog.times(log) if ms <= DEADLINE_MS)


def main(roundhouse, seconds, *flags):
    seconds, times = float(seconds), tempfile.NamedTemporaryFile("w", suffix=".txt")
    due = arrivals(seconds)
    times.write("\n".join(f"{at:.6f}" for at in due))
    times.flush()
    words = "serve http --demo --json --admin none --port 0 --drain 1s".split()
    server = subprocess.Popen([roundhouse, "pin", "1", "--", roundhouse, *words, *flags], stdin=NULL,
                              stdout=subprocess.PIPE, stderr=NULL)
    url = f"http://{json.loads(server.stdout.readline())['listening']}/{PATH}"
    counts, ended = [], threading.Event()

    def watch():
        while not ended.wait(seconds / 200):
            counts.append(tasks(server.pid))

    def disturb():
        begin, end = (hour / 24 * seconds for hour in NEIGHBOUR)
        if not ended.wait(begin):
            with subprocess.Popen([roundhouse, "pin", "1", "--", "sh", "-c", "while :; do :; done"]) as busy:
                ended.wait(end - begin)
                busy.kill()

    beside = [threading.Thread(target=it) for it in (watch, disturb)]
    with tempfile.NamedTemporaryFile(suffix=".hlog") as table:
        load = [roundhouse, "pin", "0", "--", roundhouse, "load", url, "--json", "--hlog", table.name]
        load += ["--open", str(CAPACITY), "--arrivals", "replay", times.name, "-c", "1000"]
        load += ["--requests-per-connection", "1", "--warmup", "0s", "-d", f"{seconds}s"]
        for it in beside:
            it.start()
        found = subprocess.run(load, capture_output=True, text=True)
        ended.set()
        for it in beside:
            it.join()
        server.terminate()
        server.wait()
        lines = [line for line in found.stdout.splitlines() if line.startswith("{")]
        report = json.loads(lines[0]) if lines else sys.exit(f"no report: {found.stderr}")
        counted = {key: report[key] for key in ("arrived", "requests", "refused", "dropped", "failed")}
        share = on_time(table.name) / len(due)
    print(json.dumps(counted | {"on_time": share, "tasks": sum(counts) / max(1, len(counts))}))


main(*sys.argv[1:])
