"""One measurement of a media server: sessions of one film, received by `roundhouse play`.

usage: media.py ROUNDHOUSE MEASURE SERVER SESSIONS

MEASURE is `heard` (the receivers get the packets), `freed` (the loopback device drops them, so that
no receiver's work is in the figure; needs root) or `knee` (sessions are doubled from SESSIONS on until
packets are late or lost). SERVER is `ours`, `gstreamer` or `ffmpeg` (a process for each client). The
server runs on core 0, the receivers on core 1, as root in a network namespace of their own. The last
line of the output is a JSON object.

The schedule of a foreign server is unknown, so the lateness of its packets derives from their own
timestamps, relative to the earliest packet of their sender.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PORT = 15804
# Seconds: the ramp of the receivers, then the time for which they listen to a session.
RAMP, LISTEN = 1.0, 4.0
PACKETS_S = 3e6 / 8 / 1316  # of the film: seven packets of 188 bytes in each of RTP
# The allowed lateness beyond that of a single session, and the end of the search: beyond it the
# receiver is the limit.
OBJECTIVE_MS, MOST = 10.0, 640
SILENT = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def film():
    """Half a minute of constant 3 Mbit/s, encoded once."""
    path = os.path.join(tempfile.gettempdir(), f"roundhouse-bench-{os.getuid()}.ts")
    if not os.path.exists(path):
        words = (
            "ffmpeg -loglevel error -y -f lavfi -i testsrc2=size=640x360:rate=25 -t 30 "
            "-c:v libx264 -preset ultrafast -b:v 2600k -maxrate 2600k -bufsize 600k -g 25 "
            "-muxrate 3000k -f mpegts"
        )
        subprocess.run([*words.split(), path + ".new"], check=True)
        os.rename(path + ".new", path)  # a partial file is never mistaken for the film
    return path


def tree(pid):
    """A process and all below it."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = open(f"/proc/{name}/stat").read().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        children.setdefault(int(stat[1]), []).append(int(name))
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found


def cpu_ns(process):
    """CPU time of its threads, exact; ended threads are not in it."""
    tasks = os.listdir(f"/proc/{process}/task")
    return sum(int(open(f"/proc/{process}/task/{it}/schedstat").read().split()[0]) for it in tasks)


class Server:
    """A server that runs until the end of a `with`."""

    def __init__(self, roundhouse, kind, sessions, port):
        self.roundhouse, self.kind, self.sessions, self.port = roundhouse, kind, sessions, port
        self.children = []

    def __enter__(self):
        on_core = [self.roundhouse, "pin", "0", "--"]
        media, port = film(), str(self.port)
        if self.kind == "ours":
            words = [self.roundhouse, *"serve media --admin none --per-address 10000".split()]
            words += ["--port", port, "--loop", media]
            self.url = f"rtsp://127.0.0.1:{port}/{os.path.basename(media)}"
        elif self.kind == "gstreamer":
            # The distribution's Python, which has its bindings.
            words = ["/usr/bin/python3", f"{HERE}/gst_server.py", port, media]
            self.url = f"rtsp://127.0.0.1:{port}/film"
        else:
            self.url = f"rtp://127.0.0.1:{port}"
            words = "ffmpeg -loglevel quiet -re -stream_loop -1 -i".split() + [media]
            words += ["-c", "copy", "-f", "rtp_mpegts", f"{self.url}?pkt_size=1328"]
        count = self.sessions if self.kind == "ffmpeg" else 1
        self.children = [subprocess.Popen(on_core + words, **SILENT) for _ in range(count)]
        if self.kind == "ffmpeg":
            time.sleep(0.5 + 0.25 * count)  # each takes some tenths of the core to begin
        else:
            self.wait()
        return self

    def wait(self):
        """Until the port is open."""
        end = time.monotonic() + 30
        sought = f":{self.port:04X}"
        while True:
            text = open("/proc/net/tcp").read() + open("/proc/net/tcp6").read()
            rows = [line.split() for line in text.splitlines()]
            if any(row[1].endswith(sought) and row[3] == "0A" for row in rows):
                return
            ended = self.children[0].poll()
            if ended is not None or time.monotonic() > end:
                sys.exit(f"{self.kind} did not open its port (exit {ended}): is it installed?")
            time.sleep(0.02)

    def share_ns(self, seconds):
        """CPU of all its processes for each second and session of the next `seconds`."""
        def total():
            return sum(cpu_ns(it) for child in self.children for it in tree(child.pid))
        before, begin = total(), time.monotonic()
        time.sleep(seconds)
        return (total() - before) / (time.monotonic() - begin) / self.sessions

    def receiver(self):
        """The receiver of its sessions, once all of them play."""
        words = [self.roundhouse, "pin", "1", "--", self.roundhouse, "play", self.url, "--json"]
        words += ["--for", f"{int((RAMP + LISTEN) * 1000)}ms"]
        if self.kind != "ffmpeg":
            words += ["--sessions", str(self.sessions), "--ramp", f"{RAMP:.0f}s"]
        pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        started = subprocess.Popen(words, **pipes)
        time.sleep(RAMP + LISTEN / 4)  # all sessions play, neither begins nor ends
        return started

    def __exit__(self, *_):
        for child in self.children:
            child.terminate()  # a server of several processes takes its children with it
        for child in self.children:
            try:
                child.wait(3)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def heard(server):
    """What the receivers found, and the server's CPU while they listened."""
    receiver = server.receiver()
    found = {"share_ns": server.share_ns(LISTEN / 2)}
    out, err = receiver.communicate()
    if not out:
        sys.exit(f"`roundhouse play` said: {err.decode()}")
    report = json.loads(out)
    found["first_ms"] = (report.get("first_packet_ms") or {}).get("p50")
    found["late_ms"] = report["late_ms"]["p999"]
    for name in ["lost", "packets", "played"]:
        found[name] = report.get(name) or 0
    if not found["packets"]:
        sys.exit(f"{server.kind} sent nothing")
    # Sessions begin within the ramp; an ffmpeg may begin before its receiver, so it owes none.
    found["due"] = PACKETS_S * (LISTEN + 1.5 * RAMP) * server.sessions * (server.kind != "ffmpeg")
    return found


def freed(server):
    """The same while the loopback device drops what it is given."""
    receiver = server.receiver()
    drop = "tc qdisc {} dev lo root pfifo limit 0"
    subprocess.run(drop.format("add").split(), check=True)
    share_ns = server.share_ns(LISTEN / 2)
    receiver.kill()  # it would wait for packets that no longer arrive
    receiver.communicate()
    subprocess.run("tc qdisc del dev lo root".split(), check=True)
    return {"share_ns": share_ns}


def knee(roundhouse, kind, first):
    """The most sessions that are in time, by doubling; the first number where even that is not."""
    def hear(sessions, port):
        with Server(roundhouse, kind, sessions, port) as server:
            return heard(server)
    objective = hear(1, PORT)["late_ms"] + OBJECTIVE_MS
    kept, sessions, port = first, first, PORT
    while sessions <= MOST:
        port += 4  # even, and not its predecessor's, which may still be closing
        found = hear(sessions, port)
        core = found["share_ns"] * sessions / 1e7
        late, lost = found["late_ms"], found["lost"]
        print(f"{sessions}: {late:.1f} ms late, {lost} lost, {core:.0f} % of the core")
        whole = (kind == "ffmpeg" or found["played"] == sessions) and not found["lost"]
        if not whole or found["late_ms"] > objective:
            break
        kept, sessions = sessions, sessions * 2
    return {"sessions": kept}


def main(roundhouse, measure, kind, sessions):
    if os.geteuid() == 0 and "ROUNDHOUSE_NET" not in os.environ:
        os.environ["ROUNDHOUSE_NET"] = "own"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    if os.geteuid() == 0:
        subprocess.run("ip link set lo up".split(), check=True)
    if measure == "knee":
        found = knee(roundhouse, kind, int(sessions))
    else:
        with Server(roundhouse, kind, int(sessions), PORT) as server:
            found = {"heard": heard, "freed": freed}[measure](server)
        # A server that falls behind looks cheap, so every packet that was due must have come.
        if measure == "heard" and found["packets"] < 0.985 * found["due"]:
            sys.exit(f"{kind} sent {found['packets']} of {found['due']:.0f} packets")
    print(json.dumps(found))


main(*sys.argv[1:])
