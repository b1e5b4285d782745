"""Makes cases.json: what SciPy says to the data that the laboratory's statistics are tried on.

    python -m venv v && v/bin/pip install scipy && v/bin/python make.py > cases.json

The data come from a fixed seed; run again, the file is the same but for SciPy's own changes.
"""

import json

import numpy as np
import scipy
from scipy import optimize, stats

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


def law(sigma, kappa, noise):
    c = np.array([1.0, 2, 4, 8, 16, 32, 64])
    x = 5000 * c / (1 + sigma * (c - 1) + kappa * c * (c - 1))
    x = x * np.exp(noise * rng.normal(size=len(c)))

    def residuals(p):
        return np.log(p[0] * 1e4 * c / (1 + p[1] * (c - 1) + p[2] * 1e-3 * c * (c - 1))) - np.log(x)

    best = None
    for start in ((0.5, 0.05, 0.1), (0.5, 0.9, 0.001), (0.5, 0.3, 3.0)):
        fit = optimize.least_squares(
            residuals, start, bounds=([1e-6, 0, 0], np.inf), xtol=1e-15, ftol=1e-15, gtol=1e-15
        )
        best = fit if best is None or fit.cost < best.cost else best
    lam, s, k = best.x
    return {
        "points": [[float(a), float(b)] for a, b in zip(c, x)],
        "lambda": float(lam * 1e4),
        "sigma": float(s),
        "kappa": float(k * 1e-3),
        "squares": float(2 * best.cost),
    }


laws = [(0.02, 1e-4, 0), (0.3, 0, 0.02), (0.0, 2e-3, 0.02), (0.1, 5e-4, 0.05), (0.9, 0, 0.03)]
print(
    json.dumps(
        {
            "scipy": scipy.__version__,
            "paired": [paired(*sample) for sample in samples()],
            "laws": [law(*parameters) for parameters in laws],
        },
        indent=1,
    )
)
