"""A swarm that grows until something fails, told in one line of JSON at its end."""

import json

from locust import HttpUser, constant, events, task

seen = {"requests": 0, "first": None}


class Visitor(HttpUser):
    wait_time = constant(0)

    @task
    def page(self):
        self.client.get("/", timeout=5)


@events.init.add_listener
def begin(environment, **_):
    seen["environment"] = environment


@events.request.add_listener
def heard(exception=None, **_):
    if exception is not None and seen["first"] is None:
        users = seen["environment"].runner.user_count
        seen["first"] = {"after_requests": seen["requests"], "users": users,
                         "words": repr(exception)}
    seen["requests"] += 1


@events.quitting.add_listener
def end(environment, **_):
    total = environment.stats.total
    print(json.dumps({
        "requests": total.num_requests,
        "failures": total.num_failures,
        "mean_ms": total.avg_response_time,
        "rps": total.total_rps,
        "first": seen["first"],
    }), flush=True)
