"""Users of a web server for Locust; docs/load.md has the command, and that of the same load here."""

from locust import FastHttpUser, constant, task


class Visitor(FastHttpUser):
    wait_time = constant(0.1)

    @task
    def page(self):
        self.client.get("/plaintext")
