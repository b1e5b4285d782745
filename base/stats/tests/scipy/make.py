"""Makes cases.json: what SciPy says to the data that the laboratory's statistics are tried on.

    python -m venv v && v/bin/pip install scipy && v/bin/python make.py > cases.json

The data come from a fixed seed; run again, the file is the same but for SciPy's own changes.
"""

import json

import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(20261121)


def samples():
    for n in (6, 7, 8, 10, 12, 15):
        yield "normal", n, rng.normal(0.05, 0.1, n)
        yield "log-normal", n, rng.lognormal(-2, 0.8, n) - 0.1
        wide = np.where(rng.random(n) < 0.1, 10.0, 1.0)
        yield "contaminated", n, 0.02 + 0.05 * wide * rng.normal(size=n)


def signed_rank(d):
    """The differences that SciPy's exact signed-rank test does not reject: an interval."""
    n = len(d)
    walsh = np.sort([(d[i] + d[j]) / 2 for i in range(n) for j in range(i, n)])
    room = 1e-9 * (walsh[-1] - walsh[0])
    kept = [
        end
        for end in walsh
        if stats.wilcoxon(d - end + room, method="exact").pvalue > 0.05
        or stats.wilcoxon(d - end - room, method="exact").pvalue > 0.05
    ]
    return [float(kept[0]), float(kept[-1])]


def paired(kind, n, d):
    interval = stats.quantile_test(d, q=0, p=0.5).confidence_interval(0.95)
    walsh = [(d[i] + d[j]) / 2 for i in range(n) for j in range(i, n)]
    return {
        "kind": kind,
        "values": d.tolist(),
        "median": float(np.median(d)),
        "interval": [float(interval.low), float(interval.high)],
        "hodges_lehmann": float(np.median(walsh)),
        "spread": float(stats.median_abs_deviation(d, scale="normal")),
        "signed_rank": signed_rank(d),
    }


print(
    json.dumps(
        {
            "scipy": scipy.__version__,
            "paired": [paired(*sample) for sample in samples()],
        },
        indent=1,
    )
)
