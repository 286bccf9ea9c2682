"""Training that can stop and go on: everything that the next step depends on, in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpearl import container
from dpearl.errors import FileError
from dpearl.release import CHECKPOINT


class Resumable:
    """Work in steps, known by its `identity`; `players` are its networks, each with its optimiser if it has one."""

    identity: dict[str, Any]
    step = 0
    chance: torch.Generator
    losses: list[float]

    def players(self) -> dict[str, tuple[torch.nn.Module, torch.optim.Optimizer | None]]:
        raise NotImplementedError

    def resumed(self) -> None:
        """Called after a restore, for what is derived from the players."""

    def save(self, path: Path) -> None:
        """Everything that the next step depends on, in a file that work can go on from."""
        head = {**self.identity, "step": self.step}
        container.replace_file(path, container.pack(CHECKPOINT, head, self._arrays())[0])

    def restore(self, path: Path) -> None:
        """Go on from a checkpoint of this very training."""
        meta, arrays = container.read(path, CHECKPOINT)
        others = [name for name, own in self.identity.items() if meta.get(name) != own]
        if others:
            raise FileError(f"{path}: was left by other training ({others[0]} differs); remove it to start anew")
        try:
            self._load(arrays)
            self.step = int(meta["step"])
            self.resumed()
        except (KeyError, TypeError, ValueError, RuntimeError, IndexError):
            raise FileError(f"{path}: is damaged; remove it to start anew") from None

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {"chance": self.chance.get_state().numpy(), "losses": np.array(self.losses)}
        for name, (player, optimiser) in self.players().items():
            arrays |= {f"{name}/{key}": value.cpu().numpy() for key, value in player.state_dict().items()}
            for place, state in (optimiser.state_dict()["state"] if optimiser else {}).items():
                arrays |= {f"{name}.adam/{place}/{key}": value.cpu().numpy() for key, value in state.items()}
        return arrays

    def _load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        self.chance.set_state(tensors["chance"])
        self.losses = tensors["losses"].tolist()
        for name, (player, optimiser) in self.players().items():
            player.load_state_dict({key: tensors[f"{name}/{key}"] for key in player.state_dict()})
            if optimiser is not None:
                described = optimiser.state_dict()
                described["state"] = _adam_states(tensors, f"{name}.adam/")
                optimiser.load_state_dict(described)


def _adam_states(tensors: dict[str, Tensor], prefix: str) -> dict[int, dict[str, Tensor]]:
    states: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith(prefix):
            place, key = name.removeprefix(prefix).split("/")
            states.setdefault(int(place), {})[key] = value
    return states
