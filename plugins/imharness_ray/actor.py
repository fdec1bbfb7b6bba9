"""The class that Ray sends to the nodes with its code: a node without the harness can still say what it lacks."""

from __future__ import annotations

from typing import Any


def actor_class() -> type:
    """Return the class of a worker on a node. A function makes it, so that Ray sends it by value."""

    class Actor:
        """Says where it is, sets itself up, and computes tasks one after the other."""

        def where(self) -> tuple[str, str]:
            """Return the id and the name of the node."""
            import socket

            import ray

            return ray.get_runtime_context().get_node_id(), socket.gethostname()

        def open(self, **arguments: Any) -> str:
            """Set up the worker; return why it cannot work here, or an empty text."""
            try:
                from imharness_ray.remote_worker import RemoteWorker

                self.worker = RemoteWorker(**arguments)
            except Exception as error:
                named = type(error).__name__
                expected = named in ("Unlike", "StoreError", "DamagedError", "Unavailable")
                return str(error) if expected else f"{named}: {error}"
            return ""

        def run(self, tasks: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
            """Compute tasks; return the results of those that were begun, as `RemoteWorker.run` does."""
            return self.worker.run(tasks)

    return Actor


def given_to(config: Any) -> dict[str, Any]:
    """Return a configuration of a worker as plain data, which a node without the harness can read, too."""
    return dict(vars(config))
