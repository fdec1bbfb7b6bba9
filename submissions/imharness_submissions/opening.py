"""Opens a submission: unpacks its package, starts it in the sandbox, and finds the entries of its manifest."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from imharness.components.registry import Registry, installed
from imharness.components.soundness import check_parameters
from imharness.contracts.attack import BaseAttack
from imharness.contracts.component import Component
from imharness.errors import HarnessError, PluginError, UsageError
from imharness_submissions.contents import tree_digest
from imharness_submissions.environment import environment_of
from imharness_submissions.manifest import Hardware, Submission, SubmittedEntry
from imharness_submissions.owners import check_registered, check_reserved
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec, Limits
from imharness_submissions.sandbox.proxies import PackageDescription, offer_of


@dataclass
class RunningSubmission:
    """A submission whose package runs in the sandbox, or can be started there.

    `registry` holds the installed components and those of the package, `components` the entries of the manifest.
    Their authors are those of the manifest, which a person filled in, and not those of the package's metadata.
    """

    submission: Submission
    guest: Guest
    description: PackageDescription
    registry: Registry
    components: list[Component]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its entries, sorted."""
        return tuple(sorted({component.info.id for component in self.components}))


def spec_for(distribution: str, environment: Path, hardware: Hardware, *, trusted: bool, threads: int = 1) -> GuestSpec:
    """Return how a package is run: with the hardware that its manifest asks for, and without any data set."""
    limits = Limits(memory_mib=int(hardware.memory_gib * 1024), answer_s=hardware.answer_s)
    return GuestSpec(
        distribution, environment, tuple(data_packages()), threads, gpu=hardware.gpu, trusted=trusted, limits=limits
    )


def data_packages() -> Iterable[Path]:
    """Yield the folders of installed packages that register data sets."""
    registry = installed()
    modules = {type(c).__module__.partition(".")[0] for c in registry.of_kind("dataset")} - {"imharness"}
    for name in sorted(modules):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None:
            folder = Path(os.path.realpath(file)).parent
            if (folder / "__init__.py").exists():
                yield folder


def open_submission(
    folder: Path, submission: Submission, *, trusted: bool = False, secret: str = "", stream_secret: str = ""
) -> RunningSubmission:
    """Unpack and start a submission's package, and find its entries.

    Raises `UsageError` when the package lacks an entry or the manifest contradicts it. `trusted` runs the package
    without a sandbox. `secret`, `stream_secret`: as for `Guest`.
    """
    check_reserved(submission)
    environment = environment_of(folder, submission.package, trusted=trusted)
    spec = spec_for(submission.package.name, environment, submission.hardware, trusted=trusted)
    guest = Guest(spec, secret, stream_secret)
    try:
        facts = {"environment": tree_digest(environment), "author": ", ".join(submission.authors)}
        description = offer_of(guest).model_copy(update=facts)
        check_registered(submission, (str(c["info"]["id"]) for c in description.components))
        registry = installed().superseded_by(description.entries(guest))
        components = [_entry(entry, description, registry) for entry in submission.entries]
    except BaseException:  # Ctrl-C too: a guest must not outlive the command
        guest.kill()
        raise
    return RunningSubmission(submission, guest, description, registry, components)


def _entry(entry: SubmittedEntry, description: PackageDescription, registry: Registry) -> Component:
    registered = {str(c.get("info", {}).get("id")) for c in description.components}
    if entry.id not in registered:
        raise UsageError(f"{entry.id}: the package registers only {', '.join(sorted(registered))}.")
    unable = dict(description.left_out).get(entry.id)
    if unable:
        raise UsageError(f"{entry.id}: {unable}.")
    template = next((c for c in registry.of_kind(entry.kind) if c.info.id == entry.id), None)
    if template is None:
        raise UsageError(f"{entry.id}: the package registers it as something other than kind {entry.kind!r}.")
    try:
        component = type(template).model_validate(dict(entry.parameters))
        check_parameters(component)
    except (ValueError, PluginError) as error:
        raise UsageError(f"{entry.id}: parameters {dict(entry.parameters)}: {' '.join(str(error).split())}") from None
    if isinstance(component, BaseAttack):
        _check_strengths(entry, component)
    return component


def _check_strengths(entry: SubmittedEntry, attack: BaseAttack) -> None:
    """Raise `UsageError` unless the manifest and the package define weak, medium and strong alike."""
    declared = {name: dict(fields) for name, fields in attack.info.strengths.items()}
    stated = {name: dict(fields) for name, fields in entry.strengths.items()}
    if declared != stated:
        raise UsageError(
            f"{entry.id}: the strengths are {stated} in the manifest and {declared} in the package; they must agree."
        )
    for name in declared:
        try:
            attack.at(name)
        except (HarnessError, ValueError) as error:
            raise UsageError(f"{entry.id}: strength {name}: {' '.join(str(error).split())}") from None
