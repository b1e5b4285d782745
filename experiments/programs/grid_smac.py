"""SMAC3 on a recorded grid, beside the tuners of `roundhouse tune --replay`.

usage: grid_smac.py GRID.gz [SEEDS]

It needs `pip install smac`, a development tool. Each search has a fifth of the grid's heats, as there;
a heat is a recorded one of a block drawn at random. The space is a server, and under it one of the
recorded settings. The last line of the output is a JSON object with the same figures as the table.
"""
import gzip
import json
import math
import random
import statistics
import sys
import tempfile

from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition
from smac import HyperparameterOptimizationFacade, Scenario
from smac.main.exceptions import ConfigurationSpaceExhaustedException


def cost(grid, heats):
    """The value of heats as the tuner's own replays have it: CPU time, and ten times the share that
    misses the objective."""
    times = [heat["cpu_ns"] for heat in heats if heat.get("cpu_ns")]
    if not times:
        return float("inf")
    share = statistics.mean(heat["attained"] / max(1, heat["offered"]) for heat in heats)
    return statistics.median(times) * (1 + 10 * max(0.0, grid["objective"] - share))


def truth(grid, margin=0.03):
    """The value of each row, as `Grid::values` has it: a cost that the whole grid cannot tell from
    the least counts as the least."""
    rows, blocks = grid["rows"], range(len(grid["rows"][0]["heats"]))
    ran = [row for row in rows if all(heat.get("cpu_ns") for heat in row["heats"])]
    logs = [[math.log(heat["cpu_ns"]) for heat in row["heats"]] for row in ran]
    centres = [statistics.median(log[block] for log in logs) for block in blocks]
    effects = [statistics.mean(log[block] - centres[block] for block in blocks) for log in logs]
    rests = []
    for block in blocks:
        here = [log[block] - effect for log, effect in zip(logs, effects)]
        centre = statistics.median(here)
        rests += [abs(rest - centre) for rest in here]
    count, of = len(ran), len(blocks)
    scale = 1.4826 * math.sqrt(count * of / max(1, (count - 1) * (of - 1)))
    told = math.log1p(margin) + 2 * scale * statistics.median(rests) * math.sqrt(2 / of)

    def missed(row):
        calm = [heat for heat in row["heats"] if not heat["is_disturbed"]] or row["heats"]
        sums = [sum(heat[name] for heat in calm) for name in ("attained", "offered")]
        return max(0.0, grid["objective"] - sums[0] / max(1, sums[1]))

    kept = [effect for row, effect in zip(ran, effects) if not missed(row)]
    alike = [effect for effect in kept if effect <= min(kept) + told]
    least = statistics.mean(map(math.exp, alike)) if alike else 0.0
    found = {}
    for row, effect in zip(ran, effects):
        is_alike = not missed(row) and effect in alike
        value = max(least, math.exp(effect)) * (1 + 10 * missed(row))
        found[json.dumps(row["candidate"])] = least if is_alike else value
    return [found.get(json.dumps(row["candidate"]), float("inf")) for row in rows]


def space(rows):
    """A server, and the number of a row under each."""
    servers = {}
    for at, row in enumerate(rows):
        servers.setdefault(row["candidate"]["server"], []).append(str(at))
    found = ConfigurationSpace()
    server = Categorical("server", list(servers))
    found.add(server)
    for name, numbers in servers.items():
        row = Categorical(name, numbers)
        found.add(row)
        found.add(EqualsCondition(row, server, name))
    return found


def choose(grid, seed, heats):
    """The number of the row that SMAC chooses."""
    rows, draw = grid["rows"], random.Random(seed)

    def row(config):
        return int(config[config["server"]])

    def heat(config, seed=0):
        found = cost(grid, [draw.choice(rows[row(config)]["heats"])])
        return found if found < float("inf") else 1e12

    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(space(rows), n_trials=heats, seed=seed, output_directory=folder)
        facade = HyperparameterOptimizationFacade(scenario, heat, overwrite=True, logging_level=40)
        try:
            facade.optimize()
        except ConfigurationSpaceExhaustedException:
            pass  # it has tried every candidate
        return row(facade.intensifier.get_incumbent())


def main(path, seeds="20"):
    grid = json.load(gzip.open(path))
    rows = grid["rows"]
    heats = sum(len(row["heats"]) for row in rows) // 5
    values = truth(grid)
    best, default = min(values), values[0]
    found = [values[choose(grid, seed, heats)] for seed in range(int(seeds))]
    regrets = sorted(value / best - 1 for value in found)
    pairs = list(zip(found[::2], found[1::2]))
    print(json.dumps({
        "tuner": "SMAC3",
        "regret": statistics.median(regrets),
        "p90": regrets[len(regrets) * 9 // 10],
        "never_worse": statistics.mean(value <= 1.02 * default for value in found),
        "agreement": statistics.mean(a == b or abs(a / b - 1) <= 0.05 for a, b in pairs),
        "heats": heats,
    }))


main(*sys.argv[1:])
