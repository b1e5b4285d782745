"""What an engine carries out at twice its capacity with a governor that holds the response time.

usage: governor.py ROUNDHOUSE ENGINE [FLAG OF LOAD ...]

Server and generator have a core each. A closed load of a server without a governor measures the peak;
an open load of twice that meets a server with one, then half of it in short probes until a probe has
no refusal and no late answer. The percentile is that of requests that were carried out; refused ones
have no response time. The last line of the output is a JSON object.
"""
import json
import subprocess
import sys
import tempfile
import time

import hlog

DEADLINE_MS = 100
# The request computes for a millisecond.
PATH = "work?ms=1"
# The factor of the overload and its length: 1,800 requests carried out give their 99th percentile 18
# samples above it. Then the share of the peak in a probe, and its length.
FACTOR, STORM, CALM, PROBE = 2.0, "3s", 0.5, "200ms"
# Seconds after which a server counts as not recovered.
PATIENCE = 20


class Server:
    """A server on the second core, until the end of a `with`."""

    def __init__(self, roundhouse, engine, flags):
        self.roundhouse = roundhouse
        words = "serve http --demo --json --admin none --port 0 --drain 1s --engine".split()
        line = [roundhouse, "pin", "1", "--", roundhouse, *words, engine, *flags]
        null = subprocess.DEVNULL
        self.child = subprocess.Popen(line, stdin=null, stdout=subprocess.PIPE, stderr=null)
        self.url = f"http://{json.loads(self.child.stdout.readline())['listening']}/{PATH}"
        self.table = tempfile.NamedTemporaryFile(suffix=".hlog")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()  # a drain, so that processes of its own end too
        self.child.wait()

    def load(self, flags):
        """The report of a load from the first core."""
        line = [self.roundhouse, "pin", "0", "--", self.roundhouse, "load", self.url, "--json"]
        line += [*flags, "--hlog", self.table.name]
        found = subprocess.run(line, capture_output=True, text=True)
        report = [line for line in found.stdout.splitlines() if line.startswith("{")]
        return json.loads(report[0]) if report else sys.exit(f"no report: {found.stderr}")

    def p99_ms(self):
        """The 99th percentile of the last load, from its log: the report leaves it out below ten
        thousand samples; here the blocks repeat it."""
        all_times = hlog.times(self.table.name)
        total, below = sum(count for _, count in all_times), 0
        for ms, count in all_times:
            below += count
            if below >= 0.99 * total:
                return ms
        sys.exit("expected times in the log of the load")


def main(roundhouse, engine, *each):
    with Server(roundhouse, engine, []) as server:
        peak = server.load(["-c", "16", "-d", "2s", *each])["throughput_rps"]
    # Where each request has a connection of its own, a worker serves one until it ends.
    connections = "1000" if each else "256"
    flags = ["--governor", "on", "--deadline", f"{DEADLINE_MS}ms"]
    with Server(roundhouse, engine, flags) as server:
        def offer(factor, span):
            rate = ["-q", str(factor * peak), "-c", connections, "-d", span, "--warmup", "0s"]
            return server.load([*rate, *each])
        storm, p99_ms, end = offer(FACTOR, STORM), server.p99_ms(), time.monotonic()
        while True:
            probe = offer(CALM, PROBE)
            if not probe["failed"] and probe["response"]["max_ns"] <= DEADLINE_MS * 1e6:
                break
            if time.monotonic() - end > PATIENCE:
                late = f"{probe['failed']} failed, the slowest took {probe['response']['max_ns']} ns"
                sys.exit(f"expected it to recover within {PATIENCE} s: {late}")
        recovery_s = time.monotonic() - end
    goodput = storm["throughput_rps"] / peak
    found = {"peak": peak, "goodput": goodput, "recovery_s": recovery_s}
    print(json.dumps(found | {"p99": p99_ms / DEADLINE_MS}))


main(*sys.argv[1:])
