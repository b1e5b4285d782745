#!/usr/bin/env python3
"""What `--busy-poll` brings to the engines: busy_poll.py ROUNDHOUSE [ROUNDS]: as root; eight rounds take 2 min.

Server and generator have a core each, in two networks joined by the pair of kernel_options.py whose packets pass NAPI.
Costs are those of veth.py with one connection at depth 1; ratios are those of turns of one round.
"""
import json, os, statistics, subprocess, sys, time

from kernel_options import GRO, polled
from veth import interval, load, networks, within

ARMS = {f"{engine}{flag}": ["--engine", engine, *flag.split()] for engine in ("epoll", "uring") for flag in ("", " --busy-poll 60")}


def turn(holders, program, port, words):
    words = [program, "serve", "http", "--demo", "--workers", "1", "--admin", "none", "--host", GRO[0], "--port", str(port), *words]
    server = within(holders[0], ["taskset", "--cpu-list", "0", *words], stdout=subprocess.DEVNULL, stderr=sys.stderr)
    try:
        time.sleep(0.7)
        url = f"http://{GRO[0]}:{port}/plaintext"
        load(holders[1], program, [url, "--cpu", "1", "--closed", "1"], 0.3, server)
        return load(holders[1], program, [url, "--cpu", "1", "--closed", "1"], 2, server)
    finally:
        server.terminate()
        server.wait()


def main(program, rounds=8):
    program, found = os.path.abspath(program), {arm: [] for arm in ARMS}
    with networks() as holders:
        polled(holders)
        for number in range(int(rounds)):
            for at, arm in enumerate(list(ARMS) if number % 2 == 0 else list(ARMS)[::-1]):
                found[arm].append(turn(holders, program, 20000 + 4 * number + at, ARMS[arm]))
                print(number + 1, arm, json.dumps(found[arm][-1]), file=sys.stderr)
    print("| engine | median latency | CPU, both | latency × without | CPU × without |")
    print("|---|---|---|---|---|")
    for arm in ARMS:
        base = found[arm.split()[0]]
        ratios = [interval([mine[of] / other[of] for mine, other in zip(found[arm], base)]) for of in ("p50", "both")]
        middle = [statistics.median(row[of] for row in found[arm]) / 1e3 for of in ("p50", "both")]
        print(f"| `{arm}` | {middle[0]:.1f} µs | {middle[1]:.1f} µs | {' | '.join(ratios)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
