"""What a Locust master must know to lead a swarm of Roundhouse generators.

    pip install locust
    locust --master -f locustfile.py StockUser     # here; then open http://localhost:8089
    roundhouse swarm --master THIS-HOST            # on every machine that makes load

The classes below make no requests. Their names are what master and workers agree on: the master
counts users, and a worker has a scenario of the same name. The custom arguments appear as fields of
the page and travel to the workers with every order, so a test is set up in the browser.

In the open model users are a rate: so many users times --rate-per-user is what is offered each
second, whether the server keeps up or not, and the ramp becomes a staircase of load. In the model
"sessions" it is a rate of visitors, each of whom makes --session-requests on a connection of his own.

Beyond Locust's own tabs there are two: whether a generator was the limit ("Generator"), and where
the time went before a reply ("Times"). Both come from the workers' reports, which carry times below
a millisecond; min and max columns of the statistics are whole numbers by Locust's own rounding, the
CSV files have them all.
"""

import csv
import io
import json
import logging
import sys
from collections import defaultdict

from flask import make_response, request
from locust import User, events, stats, task
from locust.runners import MasterRunner

stats.PERCENTILES_TO_CHART = [0.5, 0.9, 0.99, 0.999]
# The page rounds its own median to hundredths of a millisecond, and this column not at all.
stats.PERCENTILES_TO_STATISTICS = [0.5, 0.9, 0.99, 0.999]

NEEDS_WORKERS = (
    "These users are made by Roundhouse workers: start locust with --master, and "
    "`roundhouse swarm --master HOST` on each machine that makes load."
)


class RoundhouseUser(User):
    """A user whom a worker of ours makes; Locust wants a task to be there."""

    abstract = True

    @task
    def make_requests(self):
        raise RuntimeError(NEEDS_WORKERS)


class StockUser(RoundhouseUser):
    """Trades on a stock market: `show`, `buy`, `sell`, in the shares of --mix."""

    target = "stock_target"


class WebUser(RoundhouseUser):
    """Gets pages over HTTP/1.1 on a connection that stays open."""

    target = "http_target"


class EchoUser(RoundhouseUser):
    """Sends packets of ten bytes behind their length and wants each back."""

    target = "echo_target"


class LineUser(RoundhouseUser):
    """Says a constant request and waits for the end of the reply: any line protocol."""

    target = "line_target"


USERS = [StockUser, WebUser, EchoUser, LineUser]


@events.init_command_line_parser.add_listener
def add_arguments(parser):
    """The fields of the page. A value that makes no sense is told under Exceptions."""

    def add(name, default, words, shown=True, **more):
        # A master rereads fields as the type of the default.
        kind = type(default)
        parser.add_argument(
            name, type=kind, default=default, help=words, include_in_web_ui=shown, **more
        )

    def address(name, default, user):
        add(name, default, f"where {user.__name__} goes unless a host is given", shown=False)

    add(
        "--model",
        "closed",
        "closed: each user waits for his replies; open: users x rate, come what may; "
        "sessions: users x rate of them, each waits",
        choices=["closed", "open", "sessions"],
    )
    add("--rate-per-user", 1.0, "open: requests a second for each user; sessions: sessions")
    add(
        "--arrivals",
        "poisson",
        "open, sessions: how they are spread",
        choices=["poisson", "constant"],
    )
    add("--depth", 1, "requests that go out at once; open: that may share a connection")
    add("--session-requests", 10, "sessions: how often each asks (--depth requests at once)")
    add("--think", "0s", "closed, sessions: the pause after a reply: 100ms, exp:100ms, 50ms..150ms")
    add("--connections", 64, "open: connections of a worker; sessions: at a time")
    add("--requests-per-connection", 0, "reconnect after this number of requests; 0: never")
    add("--mix", "show=5,buy=50,sell=45", "StockUser: how often each command is asked")
    add("--paths", "", "WebUser: paths with weights, as /,/index.html=3; else the host's own")
    add("--seed", 1, "what schedules and requests are drawn from")
    add("--amount-max", 10, "StockUser: orders are for 1 to so many pieces", shown=False)
    add("--framing", "line", "StockUser: how replies end: line, fixed:8192, eof, length", shown=False)
    add("--line-request", "PING\\r\\n", "LineUser: what is said", shown=False)
    add("--line-terminator", "\\r\\n", "LineUser: what a reply ends with", shown=False)
    address("--stock-target", "stock://127.0.0.1:6000", StockUser)
    address("--http-target", "http://127.0.0.1:8000/", WebUser)
    address("--echo-target", "echo://127.0.0.1:6001", EchoUser)
    address("--line-target", "line://127.0.0.1:6379", LineUser)


class Health:
    """What workers have told of themselves: (worker, class) to sums of the test."""

    TIMES = ("response", "service", "lateness", "tardiness")

    def __init__(self):
        self.rows = {}

    def clear(self):
        self.rows = {}

    def add(self, worker, told):
        for user_class, pulse in told.items():
            row = self.rows.setdefault((worker, user_class), {})
            if pulse["span_s"] <= 0:
                continue
            for name in ("dropped", "unanswered"):
                row[name] = row.get(name, 0) + pulse[name]
            for name in self.TIMES:
                counts = row.setdefault(name, defaultdict(int))
                for ms, count in pulse[name].items():
                    counts[ms] += count
            row.update(
                model=pulse["model"],
                verdict=pulse["verdict"],
                users=pulse["users"],
                outstanding=pulse["outstanding"],
                offered_per_s=NONE
                if pulse["model"] == "closed"
                else round(pulse["offered"] / pulse["span_s"], 1),
                done_per_s=round(pulse["done"] / pulse["span_s"], 1),
                busy_percent=round(100 * pulse["busy_s"] / pulse["span_s"], 1),
            )

    def generators(self):
        """One row for each worker and class: was it the limit?"""
        return [
            {
                "name": f"{worker} / {user_class}",
                **{key: value for key, value in row.items() if key not in self.TIMES},
                "tardiness_p99_ms": NONE
                if row["model"] == "closed"
                else percentile(row["tardiness"], 0.99),
            }
            for (worker, user_class), row in sorted(self.rows.items())
            if "verdict" in row
        ]

    def times(self):
        """Percentiles of each class over all workers, from added counts: a mean of percentiles
        would mean nothing."""
        sums = defaultdict(lambda: defaultdict(int))
        for (_, user_class), row in self.rows.items():
            for name in self.TIMES:
                for ms, count in row.get(name, {}).items():
                    sums[user_class, name][ms] += count
        closed = {name for (_, name), row in self.rows.items() if row.get("model") == "closed"}

        def shown(user_class, name, counts, q):
            due = name in ("lateness", "tardiness")
            return NONE if due and user_class in closed else percentile(counts, q)

        return [
            {
                "name": f"{user_class} {name}",
                "count": sum(counts.values()),
                **{title: shown(user_class, name, counts, q) for title, q in QUANTILES},
            }
            for (user_class, name), counts in sorted(sums.items())
        ]


# In place of a number that a closed loop does not have: nothing in it is due at a time.
NONE = "\u2013"
QUANTILES = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)]


def percentile(counts, q):
    """The least time (ms) that a share q of all does not exceed."""
    left = q * sum(counts.values())
    for ms in sorted(counts):
        left -= counts[ms]
        if left <= 1e-9:
            return ms
    return None


health = Health()

TABLES = {
    "generator": (
        "Generator",
        health.generators,
        [
            ("name", "Worker / class"),
            ("verdict", "Verdict"),
            ("model", "Model"),
            ("users", "Users"),
            ("offered_per_s", "Offered/s"),
            ("done_per_s", "Done/s"),
            ("tardiness_p99_ms", "Own delay p99 (ms)"),
            ("busy_percent", "Thread busy (%)"),
            ("outstanding", "Outstanding"),
            ("dropped", "Dropped"),
            ("unanswered", "Unanswered"),
        ],
    ),
    "times": (
        "Times",
        health.times,
        [
            ("name", "Class and time (ms)"),
            ("count", "Count"),
            ("p50", "Median"),
            ("p90", "90%ile"),
            ("p99", "99%ile"),
            ("p999", "99.9%ile"),
            ("max", "Max"),
        ],
    ),
}


def table_csv(key):
    """A table as CSV text."""
    _, rows, columns = TABLES[key]
    text = io.StringIO()
    writer = csv.DictWriter(text, [name for name, _ in columns], extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows())
    return text.getvalue()


def extend_page(web_ui):
    """Two tabs, two downloads, and their rows in what the page asks for every two seconds."""
    web_ui.template_args["extended_tabs"] = [
        {"title": title, "key": key} for key, (title, _, _) in TABLES.items()
    ]
    web_ui.template_args["extended_tables"] = [
        {"key": key, "structure": [{"key": name, "title": words} for name, words in columns]}
        for key, (_, _, columns) in TABLES.items()
    ]
    web_ui.template_args["extended_csv_files"] = [
        {"href": f"./roundhouse/{key}.csv", "title": f"Download {title.lower()} CSV"}
        for key, (title, _, _) in TABLES.items()
    ]

    @web_ui.app.after_request
    def add_rows(response):
        # The path may have the prefix of --web-base-path.
        if request.path.endswith("/stats/requests") and response.is_json:
            body = response.get_json()
            body["extended_stats"] = [
                {"key": key, "data": rows()} for key, (_, rows, _) in TABLES.items()
            ]
            response.set_data(json.dumps(body))
        return response

    base = (getattr(web_ui, "web_base_path", None) or "").rstrip("/")

    @web_ui.app.route(f"{base}/roundhouse/<key>.csv", endpoint="roundhouse_csv")
    @web_ui.auth_required_if_enabled
    def download(key):
        if key not in TABLES:
            return make_response("expected generator.csv or times.csv", 404)
        response = make_response(table_csv(key))
        response.headers["Content-type"] = "text/csv"
        response.headers["Content-disposition"] = f"attachment;filename=roundhouse_{key}.csv"
        return response


@events.init.add_listener
def start(environment, runner, web_ui, **_):
    """Joins all this to a master; anything else could only fail later."""
    if not isinstance(runner, MasterRunner):
        logging.error(NEEDS_WORKERS)
        sys.exit(2)
    for user in USERS:
        user.host = getattr(environment.parsed_options, user.target)
    if web_ui:
        extend_page(web_ui)


@events.worker_report.add_listener
def hear(client_id, data, **_):
    health.add(client_id, data.pop("roundhouse", {}))


@events.test_start.add_listener
def forget(**_):
    health.clear()


@events.reset_stats.add_listener
def reset(**_):
    health.clear()


@events.quitting.add_listener
def keep(environment, **_):
    """With --csv PREFIX the two tables are kept beside Locust's own files, and doubts are said."""
    for row in health.generators():
        if row["verdict"] != "ok":
            logging.warning("%s: %s", row["name"], row["verdict"])
    prefix = environment.parsed_options.csv_prefix
    for key in TABLES if prefix else ():
        with open(f"{prefix}_{key}.csv", "w", encoding="utf-8", newline="") as file:
            file.write(table_csv(key))
