"""Three nodes of one market in three members of etcd, killed and paused under load with receipts.

usage: chaos.py ROUNDHOUSE SECONDS ORDERS FOLDER

Twelve clients of `roundhouse check` trade with all nodes, with receipts. Every 3 to 4 s there is one
fault, in turn: a node is killed, a member that follows is killed, the member that leads is killed, a
node is paused, a member is paused, a clock jumps. After each, the time until another node answers a strict `show`,
which goes through the store as an order does, is printed; at the end the longest of each kind, the
answers in each 10 s as a line, and whether every acknowledged order is in the log once and all nodes
show the same. It ends after SECONDS of faults and when all ORDERS are answered.

If libfaketime is there (apt-get install faketime), the clock of node 0 jumps too, by an hour to and fro;
members cannot, because programs of Go read clocks past it. Only 127.0.0.1 is used, so no network is cut.
"""
import glob
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

LIMIT = 60
ENGINES = ["epoll", "prefork", "uring"]
EVENTS = ["node killed", "follower killed", "leader killed", "node paused", "member paused"]
FAKE = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
if FAKE:
    EVENTS.append("clock jumps")
NULL = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}


def ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [it.getsockname()[1] for it in sockets]
    for it in sockets:
        it.close()
    return found


class Cluster:
    def __init__(self, roundhouse, folder):
        self.roundhouse, self.folder = roundhouse, folder
        self.clients, self.peers, self.nodes = ports(3), ports(3), ports(3)
        self.members, self.servers = [None] * 3, [None] * 3
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.clients)
        self.store = f"etcd://{hosts}/market"

    def start(self, line, name, more={}):
        errors, env = open(f"{self.folder}/{name}.err", "a"), os.environ | more
        return subprocess.Popen(line, **NULL, stderr=errors, start_new_session=True, env=env)

    def clock(self, offset):
        with open(f"{self.folder}/clock.new", "w") as file:
            file.write(offset)
        os.rename(f"{self.folder}/clock.new", f"{self.folder}/clock")

    def member(self, at):
        url = "http://127.0.0.1:{}".format
        client, peer = url(self.clients[at]), url(self.peers[at])
        everybody = ",".join(f"m{it}={url(port)}" for it, port in enumerate(self.peers))
        line = ["etcd", "--name", f"m{at}", "--data-dir", f"{self.folder}/m{at}"]
        line += ["--logger", "zap", "--log-level", "error", "--initial-cluster", everybody]
        line += ["--listen-client-urls", client, "--advertise-client-urls", client]
        line += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        self.members[at] = self.start(line, f"m{at}")

    def node(self, at):
        book = f"{self.folder}/book{at}"
        if not os.path.exists(book):
            with open(book, "w") as text:
                text.writelines(f"{stock} 1000000000 100\n" for stock in range(1, 6))
        line = [self.roundhouse, "serve", "stock", "--engine", ENGINES[at], "--data", book]
        line += ["--port", str(self.nodes[at]), "--log-keep", "100", "--replicate", self.store]
        more = {}
        if FAKE and at == 0:
            self.clock("+0")
            more = {"LD_PRELOAD": FAKE[0], "FAKETIME_TIMESTAMP_FILE": f"{self.folder}/clock"}
            # As in the kernel, the monotonic clock goes on.
            more |= {"FAKETIME_CACHE_DURATION": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        self.servers[at] = self.start(line, f"n{at}", more)

    def leader(self):
        """The place of the member that leads, when there is one."""
        for at, port in enumerate(self.clients):
            try:
                url = f"http://127.0.0.1:{port}/v3/maintenance/status"
                status = json.load(urllib.request.urlopen(url, b"{}", timeout=1))
            except OSError:
                continue
            if status.get("leader") == status["header"]["member_id"]:
                return at
        return None

    def answers(self, at):
        """The seconds until node `at` answers a strict `show`, asked again and again."""
        begin = time.monotonic()
        while time.monotonic() - begin < LIMIT:
            try:
                address = ("127.0.0.1", self.nodes[at])
                with socket.create_connection(address, timeout=1) as link:
                    link.settimeout(6)
                    link.sendall(b"show\n")
                    if link.recv(200).startswith(b"1 "):
                        return time.monotonic() - begin
            except OSError:
                pass
            time.sleep(0.01)
        sys.exit(f"node {at} has answered no strict `show` for {LIMIT} s")

    def fault(self, what, at):
        if what == "node killed":
            os.killpg(self.servers[at].pid, signal.SIGKILL)
            self.servers[at].wait()
        elif what == "node paused":
            os.killpg(self.servers[at].pid, signal.SIGSTOP)
        elif what == "member paused":
            self.members[at].send_signal(signal.SIGSTOP)
        elif what == "clock jumps":
            self.clock("+3600")
        else:
            self.members[at].kill()
            self.members[at].wait()

    def mend(self, what, at):
        if what == "node killed":
            self.node(at)
        elif what == "node paused":
            os.killpg(self.servers[at].pid, signal.SIGCONT)
        elif what == "member paused":
            self.members[at].send_signal(signal.SIGCONT)
        elif what == "clock jumps":
            self.clock("+0")
        else:
            self.member(at)

    def show(self, at):
        with socket.create_connection(("127.0.0.1", self.nodes[at]), timeout=10) as link:
            link.sendall(b"show\nexit\n")
            link.shutdown(socket.SHUT_WR)
            return link.makefile("rb").read()

    def end(self):
        for child in filter(None, self.servers + self.members):
            try:
                os.killpg(child.pid, signal.SIGCONT)
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()


def judge(cluster, orders):
    hosts = ",".join(f"127.0.0.1:{port}" for port in cluster.nodes)
    line = [cluster.roundhouse, "check", f"stock://{hosts}", "--orders", str(orders)]
    line += ["--clients", "12", "--depth", "8", "--patience", "60s"]
    line += ["--save", f"{cluster.folder}/receipts"]
    return subprocess.Popen(line, stdin=subprocess.DEVNULL)


def run(cluster, seconds, orders):
    for at in range(3):
        cluster.member(at)
    while cluster.leader() is None:
        ended = [at for at in range(3) if cluster.members[at].poll() is not None]
        if ended:
            sys.exit(f"member {ended[0]} has ended: see {cluster.folder}/m{ended[0]}.err")
        time.sleep(0.1)
    for at in range(3):
        cluster.node(at)
    for at in range(3):
        cluster.answers(at)
    buyers = judge(cluster, orders)
    worst, begin, rounds = {}, time.monotonic(), 0
    while time.monotonic() - begin < seconds and buyers.poll() is None:
        what, at = EVENTS[rounds % len(EVENTS)], rounds // len(EVENTS) % 3
        if what in ("follower killed", "leader killed"):
            while (leader := cluster.leader()) is None:
                time.sleep(0.05)
            at = leader if what == "leader killed" else (leader + 1) % 3
        if what == "clock jumps":
            at = 0
        cluster.fault(what, at)
        waited = cluster.answers(at if what == "clock jumps" else (at + 1) % 3)
        worst.setdefault(what, []).append(waited)
        print(f"{time.monotonic() - begin:6.1f} s  {what} {at}: answered again in {waited:.2f} s")
        time.sleep(1 + random.random())
        cluster.mend(what, at)
        time.sleep(2)
        rounds += 1
    for what, waits in worst.items():
        print(f"{what}: {len(waits)} times, longest wait for an answer {max(waits):.2f} s")
    if buyers.wait() != 0:
        sys.exit(f"expected `check` to end with 0, found {buyers.returncode}")
    answers = [0] * 1000
    for receipt in open(f"{cluster.folder}/receipts"):
        answers[min(int(receipt.split()[1]) // 10**10, 999)] += 1
    print("answers in each 10 s:", *answers[: max(at for at, it in enumerate(answers) if it) + 1])
    for at in range(3):
        cluster.answers(at)


def main(roundhouse, seconds, orders, folder):
    if shutil.which("etcd") is None:
        print("skipped: there is no etcd (apt-get install etcd-server)")
        return
    sys.stdout.reconfigure(line_buffering=True)
    os.makedirs(folder)
    cluster = Cluster(os.path.abspath(roundhouse), os.path.abspath(folder))
    try:
        run(cluster, int(seconds), int(orders))
        shown = {cluster.show(at) for at in range(3)}
        if len(shown) != 1:
            sys.exit(f"expected one market on all nodes, found {shown}")
        receipts = f"{cluster.folder}/receipts"
        check = [cluster.roundhouse, "check", receipts, "--log", cluster.store]
        subprocess.run(check, check=True)
    finally:
        cluster.end()


main(*sys.argv[1:])
