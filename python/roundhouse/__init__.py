"""Servers of Roundhouse from Python, and the reports of its races as tables.

    import roundhouse

    with roundhouse.serve("stock", "--engine", "epoll") as server:
        print(server.host, server.port)

    trials = roundhouse.read_report("report.jsonl")   # a DataFrame, a row for each trial
"""

import gzip
import json
import os
import shutil
import subprocess
import sysconfig


def binary():
    """The path of the program: that of this environment, or the one on the search path."""
    own = os.path.join(sysconfig.get_path("scripts"), "roundhouse")
    found = own if os.access(own, os.X_OK) else shutil.which("roundhouse")
    if found is None:
        raise FileNotFoundError(f"expected the program roundhouse at {own} or on PATH")
    return found


class Server:
    """A running server; `ready` is the line of JSON that it printed when it was."""

    def __init__(self, process, ready):
        self.process, self.ready = process, ready
        self.address = ready["listening"]
        self.host, _, port = self.address.rpartition(":")
        self.port = int(port) if port.isdigit() else None

    def __repr__(self):
        code = self.process.poll()
        state = "runs" if code is None else f"ended with {code}"
        return f"<roundhouse.Server at {self.address}, process {self.process.pid}, {state}>"

    def stop(self, timeout=15):
        """Drains the server and returns its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def serve(service, *flags, **options):
    """Starts `roundhouse serve SERVICE FLAGS` on a free port and returns it when it is ready.

    `options` are those of subprocess.Popen, such as cwd and stderr.
    """
    port = [] if "--port" in flags else ["--port", "0"]
    line = [binary(), "serve", service, *port, *map(str, flags)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, **options)
    told = process.stdout.readline()
    if not told:
        process.stdout.close()
        raise RuntimeError(f"{' '.join(line)} ended with {process.wait()}: see its stderr")
    return Server(process, json.loads(told))


def read_report(path="report.jsonl"):
    """The trials of a race (report.jsonl, or .gz) as a DataFrame of pandas, a row for each.

    Nested values have names with dots. The first line of each run, its manifest, is in
    `frame.attrs["manifests"]`.
    """
    import pandas

    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if line.strip()]
    frame = pandas.json_normalize([line for line in lines if "arm" in line and "block" in line])
    frame.attrs["manifests"] = [line for line in lines if "schema" in line]
    return frame
