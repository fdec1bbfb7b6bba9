"""The networks of a split: their rows and seeds, their training, their outputs, and the weights that are kept.

Seeds depend on the run, the split and the network's name, such as "target", and not on the defense. So two tasks that
train a network in the same way get equal networks, and a network with and without a defense has the same start and sees
its rows in the same order.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
import torch

from imharness.data import TableSet, tensor_cores
from imharness.membership import MembershipTraining, TrainingData, TrainingPlan
from imharness.tracks import StepContext
from imharness_membership.augmenting import view
from imharness_membership.splits import halved, pooled, split_rows
from imharness_membership.training import AT_ONCE, accuracy

After = Callable[[int, torch.nn.Module, int], None]
"""A function called after every epoch with the network's number, the network, and the number of epochs done."""
WEIGHTS = "weights."
"""The prefix of the names of arrays with weights."""


class Split:
    """One split of a task's table, and the networks that are trained on it.

    `parts` names the rows of the split: "target_member", "target_non_member", "target_reference" (the defender's other
    rows), the same for "shadow", and perhaps "target_further"; see `splits`. Splits can share a pool: they have the
    same rows of target and of shadow, and each split draws anew which of them are members. So they can share reference
    models, too, which a task of the pool itself trains; that task has no split.
    """

    def __init__(self, context: StepContext) -> None:
        options = context.options
        self.context, self.pool = context, options.get("pool")
        self._seeds = ("split", str(options["split"])) if "split" in options else ("pool", str(self.pool))
        self.table: TableSet = context.table()
        subset_size, shadow, further = (int(options.get(name, 0)) for name in ("part", "shadow_part", "further"))
        rng = self.rng("rows") if self.pool is None else context.generator("pool", str(self.pool), "rows", shared=True)
        self.parts = split_rows(len(self.table.labels), rng, subset_size, shadow, further)
        if self.pool is not None and "split" in options:
            self.parts = halved(self.parts, self.rng("halves"))

    @property
    def plan(self) -> TrainingPlan:
        """The plan by which networks are trained."""
        options = self.context.options
        return TrainingPlan(
            int(options["epochs"]),
            int(options["batch_size"]),
            float(options["learning_rate"]),
            str(options["optimiser"]),
            int(options.get("decay_after", 0)),
            float(options.get("momentum", 0)),
            float(options.get("weight_decay", 0)),
            str(options.get("schedule", "steps")),
            str(options.get("augmentation", "none")),
        )

    @property
    def queries(self) -> int:
        """The number of views (altered copies) of a row about which attacks by reference models ask, with the row."""
        return int(self.context.options.get("queries", 1))

    def rng(self, *purpose: str) -> torch.Generator:
        """Return a generator that is the same in all tasks of this split."""
        return self.context.generator(*self._seeds, *purpose, shared=True)

    def rows(self, role: str) -> torch.Tensor:
        """Return the rows of a role, "target" or "shadow": members, then non-members, then further non-members."""
        return torch.cat([self.parts[f"{role}_member"], self.parts[f"{role}_non_member"], self.further(role)])

    def further(self, role: str) -> torch.Tensor:
        """Return the further non-members, which a role has beside as many non-members as members."""
        return self.parts.get(f"{role}_further", torch.zeros(0, dtype=torch.int64))

    def asked(self, role: str) -> torch.Tensor:
        """Return the rows of a role as reference models are asked about them.

        These are those of `rows`. In a pool they are sorted, so that all its splits have the same order.
        """
        if self.pool is None:
            return self.rows(role)
        return torch.cat([pooled(self.parts, role), self.further(role)]).sort().values

    def fresh(self, network_name: str) -> torch.nn.Module:
        """Return an untrained network."""
        shape = tuple(self.table.features.shape[1:])
        network: torch.nn.Module = self.context.build("model")(
            shape, self.table.classes, self.rng("initialisation", network_name)
        )
        return network

    def loaded(self, arrays: Mapping[str, np.ndarray], index: int) -> torch.nn.Module:
        """Return the network whose weights have an index in the arrays of `stacked`."""
        network = self.fresh("loaded")
        names = [name for name in arrays if name.startswith(WEIGHTS)]
        network.load_state_dict({name.removeprefix(WEIGHTS): torch.from_numpy(arrays[name][index]) for name in names})
        return network.eval()

    def trained(
        self,
        training: MembershipTraining,
        member: torch.Tensor,
        reference: torch.Tensor,
        network_name: str,
        after: After = lambda number, network, done: None,
        number: int = 0,
        of: int = 1,
    ) -> torch.nn.Module:
        """Return a network trained on its members.

        Args:
            member, reference: row numbers of its members and of the defender's other rows.
            network_name: decides its seeds.
            after: called after every epoch.
            number, of: it is the network with this number of so many that a task trains one after another; for the
                progress.
        """
        network = self.fresh(network_name)

        def progress(done: int, total: int) -> None:
            self.context.progress(number * total + done, of * total)
            after(number, network, done)

        train = self.context.build(training)
        with self._precision():
            trained: torch.nn.Module = train(
                network, self._data(member, reference), self.plan, self.rng("order", network_name), progress
            )
        return trained

    def trained_many(
        self,
        training: MembershipTraining,
        members: Sequence[torch.Tensor],
        reference: torch.Tensor,
        after: After,
        before: int = 0,
    ) -> list[torch.nn.Module]:
        """Return a trained reference model for each set of members; all are trained at once if the defense can.

        `before`: how many reference models come before these, which decides their names and so their seeds.
        """
        network_names = [f"reference {before + number}" for number in range(len(members))]
        first = self.fresh(network_names[0])
        train_together = self.context.build(training, first, method="build_together")
        if train_together is None:
            return [
                self.trained(training, member, reference, network_name, after, number, len(members))
                for number, (member, network_name) in enumerate(zip(members, network_names, strict=True))
            ]
        networks = [first, *(self.fresh(network_name) for network_name in network_names[1:])]

        def progress(done: int, total: int) -> None:
            self.context.progress(done, total)
            for number, network in enumerate(networks):
                after(number, network, done)

        data = [self._data(member, reference) for member in members]
        with self._precision():
            train_together(
                networks, data, self.plan, [self.rng("order", network_name) for network_name in network_names], progress
            )
        return networks

    def _precision(self) -> AbstractContextManager[None]:
        """Return a block in which networks are trained with the precision that the track asks for."""
        return tensor_cores(self.context.options.get("precision") == "tf32")

    def outputs(self, network: torch.nn.Module, rows: torch.Tensor, number: int = 0) -> torch.Tensor:
        """Return probabilities ``(n, classes)`` for rows, or for their view with a `number`; see `augmenting.VIEWS`."""
        with torch.no_grad():
            batches = (view(self.table.features[indices], number) for indices in rows.split(AT_ONCE))
            return torch.cat([network(batch).softmax(dim=1) for batch in batches])

    def _data(self, member: torch.Tensor, reference: torch.Tensor) -> TrainingData:
        features, labels = self.table.features, self.table.labels
        return TrainingData(features[member], labels[member], features[reference], labels[reference])


class Checkpoints:
    """The weights of some epochs of plain training: of the last epoch, for releases, and of those for early stopping.

    The latter are the epochs after which the accuracy on the defender's other rows is higher than after any before.
    Early stopping at a given accuracy stops at one of them: a later epoch of the same accuracy has only learned more
    about its members.
    """

    def __init__(self, split: Split, reference: torch.Tensor) -> None:
        self._epochs = split.plan.epochs
        self._held = split.table.features[reference], split.table.labels[reference]
        self.epochs: list[int] = []
        self.held_out: list[float] = []
        self._states: list[dict[str, torch.Tensor]] = []

    def __call__(self, number: int, network: torch.nn.Module, done: int) -> None:
        """Keep the network's weights if the epoch that has just ended, the `done`-th, is one of them."""
        share = accuracy(network, *self._held)
        if done == self._epochs or share > max(self.held_out, default=-1.0):
            self.epochs.append(done)
            self.held_out.append(share)
            self._states.append({name: value.detach().cpu().clone() for name, value in network.state_dict().items()})

    def arrays(self) -> dict[str, np.ndarray]:
        """Return ``epochs`` and ``held_out`` ``(e,)``, and every weight ``(e, ...)``."""
        return {"epochs": np.array(self.epochs), "held_out": np.array(self.held_out), **stacked(self._states)}


def closest(held_out: np.ndarray, wanted: float) -> int:
    """Return the index of the checkpoint whose accuracy is closest to `wanted`, the first of equally close ones.

    Args:
        held_out: accuracies on the defender's other rows, ``(e,)``, from `Checkpoints`. The last epoch, which is there
            for releases, is no candidate if an earlier one is as accurate.
    """
    if len(held_out) > 1 and held_out[-1] <= held_out[:-1].max():
        held_out = held_out[:-1]
    return int(np.abs(held_out - wanted).argmin())


def stacked(states: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, np.ndarray]:
    """Return the weights of several networks of one architecture as arrays by name."""
    return {f"{WEIGHTS}{name}": torch.stack([state[name].cpu() for state in states]).numpy() for name in states[0]}
