"""Starts a submission's package in a sandbox beside each worker that computes its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from imharness.running.executor import Preparation
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec
from imharness_submissions.sandbox.proxies import PackageDescription


def guest_beside(guest: Guest, description: PackageDescription, secret: str = "") -> tuple[str, Mapping[str, Any]]:
    """Return a value for `prepare` of `open_executor`: each worker then starts a guest like this one."""
    spec = TypeAdapter(GuestSpec).dump_python(guest.spec, mode="json")
    return f"{__name__}:start_guest", {
        "guest": spec,
        "description": description.model_dump(mode="json"),
        "secret": secret,
        "stream_secret": guest.stream_secret,
    }


def start_guest(facts: Mapping[str, Any]) -> Preparation:
    """Start a guest for this worker, and return the package's components, whose code runs in it."""
    guest = Guest(TypeAdapter(GuestSpec).validate_python(facts["guest"]), facts["secret"], facts["stream_secret"])
    description = PackageDescription.model_validate(facts["description"])

    def end_task(failed: bool) -> list[str]:
        guest.end_task(failed)
        return guest.pop_attempts()

    return Preparation(tuple(description.entries(guest)), end_task, guest.kill)
