"""Acknowledged writes a second, each on the disk before its answer: 64 connections, for two seconds.

usage: durable.py ROUNDHOUSE disk|sync|redis|postgres DEPTH

All write into one folder below the present one, so on one disk. `disk` is the bare limit: one writer,
4 KiB over bytes that are there, fdatasync, again. Orders of `sync` are counted in its log, not by the
generator. The last line of the output is a JSON object.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

SPAN, CLIENTS, ROWS = 2, 64, 100_000
NULL = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def disk(_roundhouse, _depth, folder):
    size, page = 64 << 20, 4096
    file = os.open(f"{folder}/raw", os.O_RDWR | os.O_CREAT)
    os.pwrite(file, bytes(size), 0)
    os.fsync(file)
    begin, count = time.monotonic(), 0
    while time.monotonic() - begin < SPAN:
        os.pwrite(file, b"x" * page, count * page % size)
        os.fdatasync(file)
        count += 1
    rate = count / (time.monotonic() - begin)
    return {"writes": rate, "syncs": rate}


def sync(roundhouse, depth, folder):
    with open(f"{folder}/book", "w") as book:
        book.writelines(f"{stock} 1000000000 100\n" for stock in range(1, 6))
    line = f"{roundhouse} serve stock --engine epoll --port 0 --durability sync --json".split()
    line += ["--data", f"{folder}/book", "--admin", "127.0.0.1:0"]
    server = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        ready = json.loads(server.stdout.readline())
        load = [roundhouse, "load", f"stock://{ready['listening']}", "--json", "-c", str(CLIENTS)]
        load += ["--depth", str(depth), "--for", f"{SPAN + 2}s"]
        load = subprocess.Popen(load, **NULL)

        def look():
            url = f"{ready['admin']}status.json"
            sample = json.load(urllib.request.urlopen(url, timeout=5))
            found = {it["name"]: it["value"] for it in sample["gauges"]}
            return sample["at_ns"] / 1e9, found["orders_logged"], found["log_batches"]

        time.sleep(1)
        before = look()
        time.sleep(SPAN)
        seconds, orders, batches = (new - old for new, old in zip(look(), before))
        # 98: its own times are doubtful on a busy machine; orders are counted in the log.
        if load.wait() not in (0, 98):
            sys.exit(f"expected a load without a failure, found exit code {load.returncode}")
        return {"writes": orders / seconds, "syncs": batches / seconds}
    finally:
        server.terminate()
        server.wait()


def redis(_roundhouse, depth, folder):
    socket = f"{folder}/socket"
    port = str(20000 + os.getpid() % 10000)
    line = ["redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", folder, "--save", ""]
    line += ["--appendonly", "yes", "--appendfsync", "always", "--unixsocket", socket]
    server = subprocess.Popen(line, **NULL)
    try:
        while not os.path.exists(socket):
            time.sleep(0.01)
            if server.poll() is not None:
                sys.exit("expected redis-server to start")
        count = 80_000 * SPAN * (8 if depth > 1 else 1)
        line = f"redis-benchmark -p {port} -t set -q --csv -c {CLIENTS} -P {depth} -n {count}"
        found = subprocess.run(line.split(), capture_output=True, text=True, check=True).stdout
        return {"writes": float(found.splitlines()[-1].split(",")[1].strip('"'))}
    finally:
        server.terminate()
        server.wait()


def postgres(_roundhouse, _depth, folder):
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not programs:
        sys.exit("expected PostgreSQL below /usr/lib/postgresql: apt-get install postgresql")
    # Its server refuses root.
    os.chmod(folder, 0o711)
    data = f"{folder}/data"
    os.mkdir(data)
    user = []
    if os.geteuid() == 0:
        shutil.chown(data, "postgres")
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]

    def call(program, *args):
        line = [*user, f"{programs[-1]}/{program}", *args]
        found = subprocess.run(line, cwd=data, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        if found.returncode != 0:
            sys.exit(f"{program} ended with {found.returncode}")
        return found.stdout.decode()

    cluster, port = f"{data}/cluster", str(20000 + os.getpid() % 10000)
    call("initdb", "-D", cluster, "-U", "stock", "-A", "trust")
    options = f"-p {port} -k {data} -c listen_addresses= -c fsync=on -c synchronous_commit=on"
    call("pg_ctl", "-D", cluster, "-w", "-l", f"{data}/log", "-o", options, "start")
    try:
        at = ["-h", data, "-p", port, "-U", "stock"]
        table = "CREATE TABLE stock (id int PRIMARY KEY, remaining bigint)"
        rows = f"INSERT INTO stock SELECT id, 0 FROM generate_series(1, {ROWS}) AS id"
        call("psql", *at, "-q", "-c", table, "-c", rows, "-c", "CHECKPOINT", "postgres")
        script = f"{folder}/update.sql"
        with open(script, "w") as text:
            text.write(f"\\set id random(1, {ROWS})\n")
            text.write("UPDATE stock SET remaining = remaining + 1 WHERE id = :id;\n")
        run = ["-n", "-c", str(CLIENTS), "-j", "2", "-T", str(SPAN), "-f", script]
        found = call("pgbench", *at, *run, "postgres")
        tps = [line for line in found.splitlines() if line.startswith("tps =")]
        return {"writes": float(tps[0].split()[2])}
    finally:
        call("pg_ctl", "-D", cluster, "-m", "immediate", "stop")


def main(roundhouse, what, depth):
    arms = {"disk": disk, "sync": sync, "redis": redis, "postgres": postgres}
    with tempfile.TemporaryDirectory(dir="target") as folder:
        found = arms[what](roundhouse, int(depth), os.path.abspath(folder))
    print(json.dumps(found))


main(*sys.argv[1:])
