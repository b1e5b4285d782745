#!/usr/bin/env python3
"""The same service over a cable of the kernel's: engines, TCP in user space, and bare loops.

veth.py ROUNDHOUSE [ROUNDS [SECONDS [PAGE]]]: as root. Two network namespaces are joined by a veth pair; the servers
take turns in one, the generator runs in the other. The namespaces are held by two processes and end with them. PAGE is
one of `serve http --demo`, such as `dynamic?rows=160`; bare loops have `plaintext` only.

The cost of a request is the busy time of all CPUs (/proc/stat: all but idle and iowait) without the generator's own
user and system time, divided by the requests. So the kernel's work outside of the server's process counts: that
of soft interrupts, in which veth hands frames over, for both directions and both ends, the same for all arms.
Ratios are those of turns of one round; the interval is that of the median by order statistics (95 % from 6 on).
"""
import contextlib, json, os, statistics, subprocess, sys, time

ADDRESSES = ["10.99.8.1", "10.99.8.2"]
OWN = "10.99.8.3"  # of the TCP in user space


def within(holder, words, **more):
    return subprocess.Popen(["nsenter", "--target", str(holder.pid), "--net", *words], **more)


def busy():
    """Busy time of all CPUs, and of it in soft interrupts, in seconds."""
    user, nice, system, _, _, irq, soft, steal = map(int, open("/proc/stat").readline().split()[1:9])
    return (user + nice + system + irq + soft) / 100, soft / 100


def used(server):
    """The CPU time of a process, its kernel threads for io_uring included, in seconds."""
    tasks = f"/proc/{server.pid}/task"
    return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0]) for task in os.listdir(tasks)) / 1e9


def load(holder, program, words, seconds, server):
    """Both costs of a request in ns, and the generator's latency.

    "ns" is the busy time without the generator's own; "both" the time of the two processes, which other processes on
    the machine do not disturb. A soft interrupt counts for the process that it interrupts.
    """
    before = *busy(), used(server)
    words = [program, "load", *words, "--depth", "1", "--json", "-d", f"{seconds}s", "--warmup", "0s"]
    client = within(holder, words, stdout=subprocess.PIPE)
    report = json.loads(client.stdout.read())
    _, _, usage = os.wait4(client.pid, 0)
    client.returncode = 0
    after = *busy(), used(server)
    count, spent, own = report["requests_total"], after[0] - before[0], usage.ru_utime + usage.ru_stime
    both, soft = after[2] - before[2] + own, (after[1] - before[1]) / spent
    found = {"ns": (spent - own) / count * 1e9, "both": both / count * 1e9, "soft": soft, "rate": count / seconds}
    return found | {"p50": report["service"]["p50_ns"]}


def turn(holders, words, url, program, seconds, clients=("--closed", "16")):
    """One server under the load of these clients, after a moment for its first requests."""
    server = within(holders[0], words, stdout=subprocess.DEVNULL, stderr=sys.stderr)
    try:
        time.sleep(0.7)
        load_words = [url, *clients]
        load(holders[1], program, load_words, 0.3, server)
        return load(holders[1], program, load_words, seconds, server)
    finally:
        server.terminate()
        server.wait()
        time.sleep(0.5)  # The kernel takes a program off the interface a moment later.


def interval(values):
    values = sorted(values)
    cut = 0 if len(values) < 9 else 1
    return f"{statistics.median(values):.2f} [{values[cut]:.2f}, {values[-1 - cut]:.2f}]"


@contextlib.contextmanager
def networks():
    """Two network namespaces, each held by a process."""
    hold = ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec sleep 3600"]
    holders = [subprocess.Popen(hold, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for holder in holders:
            holder.stdout.readline()
        yield holders
    finally:
        for holder in holders:
            holder.kill()


def join(holders, devices, addresses):
    """Joins the namespaces by a veth pair."""
    a, b = (str(holder.pid) for holder in holders)
    words = ["ip", "link", "add", devices[0], "netns", a, "type", "veth", "peer", "name", devices[1], "netns", b]
    subprocess.run(words, check=True)
    for holder, device, address in zip(holders, devices, addresses):
        script = f"ip addr add {address}/24 dev {device} && ip link set {device} up"
        assert within(holder, ["sh", "-c", script]).wait() == 0


def main(program, rounds=8, seconds=3, page="plaintext"):
    program, rounds, seconds = os.path.abspath(program), int(rounds), float(seconds)
    serve = [program, "serve", "http", "--demo", "--workers", "1", "--admin", "none", "--port", "6000"]
    arms = {
        "epoll": serve + ["--engine", "epoll", "--host", ADDRESSES[0]],
        "uring": serve + ["--engine", "uring", "--host", ADDRESSES[0]],
        "bypass": serve + ["--engine", "bypass", "--interface", "vsrv", "--host", OWN],
        "bare xdp": ["bare/build/xdp", "vsrv", OWN, "6000"],
        "bare xdp, busy polling": ["bare/build/xdp", "vsrv", OWN, "6000", "busy"],
    }
    if page != "plaintext":
        arms = {arm: words for arm, words in arms.items() if words[0] == program}
    arms = {arm: words for arm, words in arms.items() if os.path.exists(words[0])}
    found = {arm: [] for arm in arms}
    with networks() as holders:
        join(holders, ("vsrv", "vcli"), ADDRESSES)
        for number in range(rounds):
            for arm in list(arms) if number % 2 == 0 else list(arms)[::-1]:
                host = OWN if OWN in arms[arm] else ADDRESSES[0]
                found[arm].append(turn(holders, arms[arm], f"http://{host}:6000/{page}", program, seconds))
                print(number + 1, arm, json.dumps(found[arm][-1]), file=sys.stderr)
    print("| arm | CPU per request | × epoll | both processes, × epoll | soft interrupts | requests/s |")
    print("|---|---|---|---|---|---|")
    for arm in arms:
        ratios = [interval([mine[of] / base[of] for mine, base in zip(found[arm], found["epoll"])]) for of in ("ns", "both")]
        middle = {key: statistics.median(row[key] for row in found[arm]) for key in ("ns", "soft", "rate")}
        print(f"| `{arm}` | {middle['ns'] / 1e3:.2f} µs | {' | '.join(ratios)} | {middle['soft']:.0%} | {middle['rate']:,.0f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
