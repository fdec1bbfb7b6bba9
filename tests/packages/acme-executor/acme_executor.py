"""An executor from outside, as help texts read it: its settings, and how it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

if TYPE_CHECKING:
    from acme_threads import Threads


class ThreadSettings(BaseModel):
    """The option ``--thread-name`` of the commands that compute."""

    thread_name: str = Field("acme", min_length=1, description="What the threads are called. Default: acme.")


class ThreadsOffer:
    """The object that the entry point names."""

    settings = ThreadSettings

    @staticmethod
    def load() -> type[Threads]:
        from acme_threads import Threads

        return Threads
