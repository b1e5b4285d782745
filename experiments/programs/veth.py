#!/usr/bin/env python3
"""The same service over a cable of the kernel's: engines, TCP in user space, and bare loops.

veth.py ROUNDHOUSE [ROUNDS [SECONDS]]: as root. Two network namespaces are joined by a veth pair; the servers
take turns in one, the generator runs in the other. The namespaces are held by two processes and end with them.

The cost of a request is the busy time of all CPUs (/proc/stat: all but idle and iowait) without the generator's own
user and system time, divided by the requests. So the kernel's work outside of the server's process counts: that
of soft interrupts, in which veth hands frames over, for both directions and both ends, the same for all arms.
Ratios are those of turns of one round; the interval is that of the median by order statistics (95 % from 6 on).
"""
import json, os, statistics, subprocess, sys, time

program, rounds, seconds = os.path.abspath(sys.argv[1]), int((sys.argv[2:] + [8])[0]), float((sys.argv[3:] + [3])[0])
ADDRESSES = ["10.99.8.1", "10.99.8.2"]
OWN = "10.99.8.3"  # of the TCP in user space
serve = [program, "serve", "http", "--demo", "--workers", "1", "--admin", "none", "--port", "6000"]
ARMS = {
    "epoll": serve + ["--engine", "epoll", "--host", ADDRESSES[0]],
    "uring": serve + ["--engine", "uring", "--host", ADDRESSES[0]],
    "bypass": serve + ["--engine", "bypass", "--interface", "vsrv", "--host", OWN],
    "bare xdp": ["bare/build/xdp", "vsrv", OWN, "6000"],
}


def within(holder, words, **more):
    return subprocess.Popen(["nsenter", "--target", str(holder.pid), "--net", *words], **more)


def busy():
    """Busy time of all CPUs, and of it in soft interrupts, in seconds."""
    user, nice, system, _, _, irq, soft, steal = map(int, open("/proc/stat").readline().split()[1:9])
    return (user + nice + system + irq + soft) / 100, soft / 100


def turn(holders, arm):
    """One server under load: CPU time of the server's side for a request in ns, and the share of soft interrupts."""
    server = within(holders[0], ARMS[arm], stdout=subprocess.DEVNULL, stderr=sys.stderr)
    try:
        time.sleep(0.7)
        host = OWN if "bypass" in arm or "xdp" in arm else ADDRESSES[0]
        load = [program, "load", f"http://{host}:6000/plaintext", "--closed", "16", "--depth", "1", "--json"]
        within(holders[1], load + ["-d", "0.3s", "--warmup", "0s"], stdout=subprocess.DEVNULL).wait()
        before = busy()
        client = within(holders[1], load + ["-d", f"{seconds}s", "--warmup", "0s"], stdout=subprocess.PIPE)
        report = json.loads(client.stdout.read())
        _, _, usage = os.wait4(client.pid, 0)
        after = busy()
        count = report["requests_total"]
        ours = after[0] - before[0] - usage.ru_utime - usage.ru_stime
        return {"ns": ours / count * 1e9, "soft": (after[1] - before[1]) / (after[0] - before[0]), "rate": count / seconds}
    finally:
        server.terminate()
        server.wait()
        time.sleep(0.5)  # The kernel takes a program off the interface a moment later.


def interval(values):
    values = sorted(values)
    cut = 0 if len(values) < 9 else 1
    return f"{statistics.median(values):.2f} [{values[cut]:.2f}, {values[-1 - cut]:.2f}]"


def main():
    hold = ["unshare", "--net", "sh", "-c", "echo ready && exec sleep 3600"]
    holders = [subprocess.Popen(hold, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for holder in holders:
            holder.stdout.readline()
        a, b = (str(holder.pid) for holder in holders)
        subprocess.run(["ip", "link", "add", "vsrv", "netns", a, "type", "veth", "peer", "name", "vcli", "netns", b], check=True)
        for holder, device, address in zip(holders, ("vsrv", "vcli"), ADDRESSES):
            script = f"ip link set lo up && ip addr add {address}/24 dev {device} && ip link set {device} up"
            assert within(holder, ["sh", "-c", script]).wait() == 0
        arms = [arm for arm in ARMS if os.path.exists(ARMS[arm][0])]
        found = {arm: [] for arm in arms}
        for number in range(rounds):
            order = arms if number % 2 == 0 else arms[::-1]
            for arm in order:
                found[arm].append(turn(holders, arm))
                print(number + 1, arm, json.dumps(found[arm][-1]), file=sys.stderr)
        print("| arm | CPU per request | × epoll | soft interrupts | requests/s |\n|---|---|---|---|---|")
        for arm in arms:
            ratios = [mine["ns"] / base["ns"] for mine, base in zip(found[arm], found["epoll"])]
            middle = {key: statistics.median(row[key] for row in found[arm]) for key in ("ns", "soft", "rate")}
            print(f"| `{arm}` | {middle['ns'] / 1e3:.2f} µs | {interval(ratios)} | {middle['soft']:.0%} | {middle['rate']:,.0f} |")
    finally:
        for holder in holders:
            holder.kill()


main()
