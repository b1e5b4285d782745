#!/usr/bin/env python3
"""What `--busy-poll` brings to the engines: busy_poll.py ROUNDHOUSE [ROUNDS]: as root; eight rounds take 2 min.

Server and generator have a core each, in two networks joined by the pair of kernel_options.py whose packets pass NAPI.
Costs are those of veth.py with one connection at depth 1; ratios are those of turns of one round.
"""
import json, os, statistics, sys

from kernel_options import GRO, polled
from veth import interval, networks, turn

ARMS = {f"{engine}{flag}": ["--engine", engine, *flag.split()] for engine in ("epoll", "uring") for flag in ("", " --busy-poll 60")}


def serve(program, port, words):
    """The words of a server on core 0."""
    words = ["--host", GRO[0], "--port", str(port), "--workers", "1", "--admin", "none", *words]
    return ["taskset", "--cpu-list", "0", program, "serve", "http", "--demo", *words]


def main(program, rounds=8):
    program, found = os.path.abspath(program), {arm: [] for arm in ARMS}
    with networks() as holders:
        polled(holders)
        for number in range(int(rounds)):
            for at, arm in enumerate(list(ARMS) if number % 2 == 0 else list(ARMS)[::-1]):
                port = 20000 + 4 * number + at
                url, clients = f"http://{GRO[0]}:{port}/plaintext", ["--cpu", "1", "--closed", "1"]
                found[arm].append(turn(holders, serve(program, port, ARMS[arm]), url, program, 2, clients))
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
