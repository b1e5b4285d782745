#!/usr/bin/env python3
"""The things that the kernel offers to lower its share of a request, on and off in turns.

kernel_options.py ROUNDHOUSE [ROUNDS [FILE]]: as root, after `cargo xtask bare`; eight rounds take 9 min. One server
(bare/options.c) has a switch for each of them. It serves on loopback, over a veth pair, and over one whose end at the
server has GRO and whose other end has no TSO, because only then do packets pass NAPI (veth_xmit in drivers/net/veth.c)
and have an id that can be polled. Server and generator have a core each. FILE gets the record in Markdown.

Costs are those of veth.py, with 16 connections at depth 1, and ratios those of turns of one round. "both" is the time of
server and generator: what a server saves at its clients' expense does not count there. The latency is the median with one
connection, for replies of 1 KiB and more with 16.
"""
import ctypes, datetime, json, os, platform, statistics, subprocess, sys

from veth import ADDRESSES, interval, join, load, networks, within

SERVER = os.path.abspath("bare/build/options")
CGROUP = "/sys/fs/cgroup/unified/roundhouse-options"  # of bare/sockmap.h
GRO = ["10.99.9.1", "10.99.9.2"]
HOSTS = {"loopback": "127.0.0.1", "veth": ADDRESSES[0], "veth, GRO": GRO[0]}
NAPI, PLAIN, ALL = ["veth, GRO"], ["loopback", "veth"], list(HOSTS)

# Name, options, the name that it is compared with, the places, and why it does what it does.
SMALL = [
    ("epoll", [], None, ALL, ""),
    ("Nagle's algorithm (no `TCP_NODELAY`)", ["nagle"], "epoll", PLAIN,
     "A reply finds no segment on its way at depth 1, so the algorithm never waits."),
    ("`TCP_QUICKACK`", ["quickack"], "epoll", PLAIN,
     "One more call for each request, and one more segment where the reply would have carried the acknowledgement."),
    ("sockmap", ["sockmap"], "epoll", ["loopback"],
     "A message goes into the other socket's queue, past TCP and IP; both ends must be on one machine."),
    ("epoll, busy polling (`EPIOCSPARAMS`)", ["busy-epoll"], "epoll", NAPI,
     "The loop asks the device before it sleeps, so a packet needs no wake-up; meanwhile it takes its core."),
    ("one blocking `recv`", ["blocking"], "epoll", NAPI, "One connection, and no call that waits for it."),
    ("`SO_BUSY_POLL`, `SO_PREFER_BUSY_POLL`", ["blocking", "busy-socket"], "one blocking `recv`", NAPI,
     "The same as busy polling of epoll, within `recv`."),
    ("io_uring", ["uring"], "epoll", ALL, "One call for a turn, with multishot receives into a ring of buffers."),
    ("io_uring, single receives", ["uring", "single"], "io_uring", PLAIN,
     "Each request submits its receive again."),
    ("io_uring, bundles", ["uring", "bundle"], "io_uring", PLAIN,
     "A bundle fills several buffers by one completion; a request of 50 bytes needs one."),
    ("io_uring, `SQPOLL`", ["uring", "sqpoll"], "io_uring", PLAIN,
     "A thread of the kernel's polls for submissions; it needs a core that nothing else uses."),
    ("io_uring, `IORING_REGISTER_NAPI`", ["uring", "napi"], "io_uring", NAPI,
     "The ring asks the device before it sleeps, as epoll does above."),
]
COPIED = "A receiver on this machine makes the kernel copy after all, and each send has a notice besides."
SIZES = [
    ("epoll", [], None, ""), ("`MSG_ZEROCOPY`", ["zerocopy"], "epoll", COPIED),
    ("io_uring", ["uring"], None, ""), ("io_uring, `SEND_ZC`", ["uring", "send-zc"], "io_uring", COPIED),
]
LENGTHS = [1, 4, 16, 64]  # KiB


def all_arms():
    for name, options, base, places, why in SMALL:
        for place in places:
            yield (name, place, 2), options, base and (base, place, 2), why
    for kib in LENGTHS:
        for name, options, base, why in SIZES:
            for place in PLAIN:
                key = (name, place, kib << 10)
                yield key, options, base and (base, place, kib << 10), why
    yield ("GRO on, epoll", "veth, GRO", 2), [], ("epoll", "veth", 2), "A packet passes a NAPI poll more; single segments merge with nothing."


def feature(device, command, value):
    """Switches a feature of a device of this network, as ethtool(8) does (SIOCETHTOOL)."""
    libc, value = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(command, value)
    request = device.encode().ljust(16, b"\0") + ctypes.addressof(value).to_bytes(24, "little")
    return libc.ioctl(libc.socket(2, 2, 0), ctypes.c_ulong(0x8946), request)


def polled(holders):
    """Joins the networks by a pair whose packets have a NAPI id at the server: ETHTOOL_SGRO there, ETHTOOL_STSO off here."""
    join(holders, ("gsrv", "gcli"), GRO)
    for holder, words in zip(holders, ("'gsrv', 0x2C, 1", "'gcli', 0x1F, 0")):
        script = f"from kernel_options import feature; raise SystemExit(feature({words}))"
        folder = os.path.dirname(os.path.abspath(__file__))
        assert within(holder, [sys.executable, "-c", script], cwd=folder).wait() == 0


port = 20000


def turn(holders, program, key, options):
    """One server under both loads."""
    global port
    port += 1
    name, place, length = key
    words = [SERVER, HOSTS[place], str(port), str(length), *options]
    server = within(holders[0], words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        server.stdout.readline()
        here = holders[0] if place == "loopback" else holders[1]
        target, found = [f"http://{HOSTS[place]}:{port}/", "--cpu", "1"], {}
        if "sockmap" in options:
            # The generator must be in the group of the server.
            open(CGROUP + "/cgroup.procs", "w").write("0")
        if "blocking" not in options:
            found = load(here, program, target + ["--closed", "16"], 0.7 if length == 2 else 0.5, server)
        if length == 2:
            one = load(here, program, target + ["--closed", "1"], 0.5, server)
            found = (found or one) | {"p50": one["p50"], "ns one": one["ns"], "both one": one["both"]}
    finally:
        if os.path.exists(CGROUP):
            open("/sys/fs/cgroup/unified/cgroup.procs", "w").write("0")
        server.terminate()
        said = server.communicate()[1].decode().strip()
        if os.path.exists(CGROUP):
            os.rmdir(CGROUP)
    return found | {"said": said}


def verdict(cpu, both, wait):
    """What the intervals of three rows of ratios say."""
    def of(values, less, more):
        return less if max(values) < 1 else more if min(values) > 1 else ""
    found = [of(cpu, "less CPU", "more CPU"), of(both, "less for both", "more for both")]
    found.append(of(wait, "faster", "slower"))
    return ", ".join(filter(None, found)) or "no difference found"


def table(found, arms):
    yield "| option | where | reply | CPU, server's side | CPU, both | latency | found | reason |"
    yield "|---|---|---|---|---|---|---|---|"
    for key, _, base, why in arms:
        if base is None:
            continue
        ratios = [[mine[of] / other[of] for mine, other in zip(found[key], found[base])] for of in ("ns", "both", "p50")]
        if base[0] == "epoll" and key[0].startswith("one blocking"):
            # It has one connection only.
            for at, of in enumerate(("ns one", "both one")):
                ratios[at] = [mine[of] / other[of] for mine, other in zip(found[key], found[base])]
        where = key[1] + (f"; × {base[0]}" if base[0] != "epoll" else "")
        size = f"{key[2] >> 10} KiB" if key[2] > 2 else "2 B"
        said = {row["said"] for row in found[key]} - {""}
        why += f" ({'; '.join(sorted(said))})" if said else ""
        yield f"| {key[0]} | {where} | {size} | {' | '.join(map(interval, ratios))} | {verdict(*ratios)} | {why} |"


def record(found, arms, rounds, words):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    cpu = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ")
    yield "# What lowers the kernel's share on the ordinary path?\n"
    yield f"Machine: {cpu}, {os.cpu_count()} CPUs, Linux {platform.release()}. {date}. Load {words[1]}.\n"
    yield f"Commit {commit}, `{words[0]}`: {rounds} rounds in turns.\n"
    yield "A server of HTTP in C (`bare/options.c`) on one core, the generator on the other, 16 connections at depth 1. A ratio is"
    yield "that to the same server without the option, on `epoll` unless another is named, within a round: the median and its"
    yield "interval. `CPU, server's side` is the busy time of all CPUs without the generator's own, `both` the time of the two"
    yield "processes. The latency is the median with one connection, from 1 KiB on with 16.\n"
    if float(words[1]) > 1:
        yield "Doubt: other processes took part of the machine. They are in the server's side, and not in both.\n"
    yield from table(found, arms)
    yield "\nCosts of the servers without an option, median: " + "; ".join(
        f"`{key[0]}` on {key[1]} {statistics.median(row['ns'] for row in found[key]) / 1e3:.2f} µs"
        for key, _, base, _ in arms if base is None and key[2] == 2) + "."


def main(program, rounds=8, file=None):
    program, rounds, arms = os.path.abspath(program), int(rounds), list(all_arms())
    quiet = open("/proc/loadavg").read().split()[0]
    found = {key: [] for key, *_ in arms}
    with networks() as holders:
        join(holders, ("vsrv", "vcli"), ADDRESSES)
        polled(holders)
        for number in range(rounds):
            for key, options, *_ in arms if number % 2 == 0 else arms[::-1]:
                # GRO is another network of the same server.
                if key[0] != "GRO on, epoll":
                    found[key].append(turn(holders, program, key, options))
                    print(number + 1, key, json.dumps(found[key][-1]), file=sys.stderr)
    found["GRO on, epoll", "veth, GRO", 2] = found["epoll", "veth, GRO", 2]
    text = "\n".join(record(found, arms, rounds, (f"python3 {sys.argv[0]} ROUNDHOUSE {rounds}", quiet))) + "\n"
    print(text)
    if file:
        open(file, "w").write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
