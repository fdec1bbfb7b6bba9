"""What a worker starts when cells of a submission are computed: its package beside it, in the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from imharness.running.executor import Preparation
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec
from imharness_submissions.sandbox.proxies import PackageDescription


def guest_beside(guest: Guest, offer: PackageDescription) -> tuple[str, Mapping[str, Any]]:
    """Return what a `WorkerConfig` takes under `prepare`, so that each worker starts a guest like this one."""
    spec = TypeAdapter(GuestSpec).dump_python(guest.spec, mode="json")
    return f"{__name__}:start_guest", {"guest": spec, "offer": offer.model_dump(mode="json")}


def start_guest(facts: Mapping[str, Any]) -> Preparation:
    """Return the components of a package whose code runs in a guest of this worker's own."""
    guest = Guest(TypeAdapter(GuestSpec).validate_python(facts["guest"]))
    offer = PackageDescription.model_validate(facts["offer"])

    def end_task(failed: bool) -> list[str]:
        guest.end_task(failed)
        return guest.taken()

    return Preparation(tuple(offer.entries(guest)), end_task, guest.kill)
