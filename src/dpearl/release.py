"""The release: what crosses the door, and its file. Everything here is public.

A release carries all that is needed to check it: the design with its frequencies, the noisy
integers, the noise that was added, and whom it protects. Its ε is recomputed from these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dpearl import container
from dpearl.card import Card, Carded
from dpearl.design import Design, load_design
from dpearl.embeddings.levels import Levels
from dpearl.errors import FileError
from dpearl.measurement import Measurement as Measurement
from dpearl.privacy import Budget, Relation, Unit, compose, epsilon_of
from dpearl.questions import interview
from dpearl.schema import Declaration, Schema

RELEASE, MODEL, CHECKPOINT = "dpearl-release", "dpearl-model", "dpearl-checkpoint"
"""Kinds of public files."""


@dataclass(frozen=True, eq=False)
class Release(Carded):
    """Sanitized measurements, in the order they were made; the last is the embedding.

    `answers` come before them, where the owner asked for bounds, levels or modes: the schema of all stages is what they say.
    `rows` is the exact number of rows where the relation makes it public (replace-one), else None.
    """

    stages: Mapping[str, Measurement]
    budget: Budget
    unit: Unit
    recipe: str
    plan: str
    rows: int | None
    types: Mapping[str, str]
    dpearl: str
    answers: Mapping[str, Measurement] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Release(epsilon={self.budget.epsilon:g}, delta={self.budget.delta:g}, {self.unit}, {self.digest[:12]})"

    def card(self) -> Card:
        """What it promises, to whom, and what it is of."""
        return Card(
            f"Release, ({self.budget.epsilon:g}, {self.budget.delta:g})-differentially private",
            [
                ("recomputed", f"epsilon {self.epsilon:.6f} at delta {self.budget.delta:g}"),
                ("protects", str(self.unit)),
                ("recipe", self.recipe),
                ("rows", f"{self.rows:,}" if self.rows is not None else f"about {max(self.embedding.noisy_rows, 0):,.0f}"),
                ("columns", ", ".join(self.schema.columns)),
                ("label", self.schema.label or "none"),
                ("digest", self.digest),
            ],
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its file: two releases with this digest are the same, bit for bit."""
        return _packed(self)[1]

    @property
    def embedding(self) -> Measurement:
        """What generators are trained on."""
        return self.stages["embedding"]

    @property
    def schema(self) -> Schema:
        """All that is known of the columns, declared or answered."""
        return self.embedding.design.schema

    @property
    def declared(self) -> Declaration:
        """What the owner declared, questions included."""
        return next(iter((self.answers or self.stages).values())).design.schema

    @property
    def measurements(self) -> dict[str, Measurement]:
        """Answers and stages together."""
        return {**self.answers, **self.stages}

    @property
    def mus(self) -> dict[str, float]:
        """μ of each stage, from the integers in this release."""
        return {name: stage.design.mu(stage.sigmas, self.unit) for name, stage in self.measurements.items()}

    @property
    def lost(self) -> float:
        """The part of δ for levels that one person alone carries, from the integers in this release."""
        return sum(stage.design.lost(stage.sigmas, self.unit) for stage in self.answers.values())

    @property
    def mu(self) -> float:
        """μ of everything together."""
        return compose(self.mus.values())

    @property
    def epsilon(self) -> float:
        """ε at the stated δ, recomputed; never more than the stated ε."""
        return epsilon_of(self.mu, self.budget.delta - self.lost)


def save_release(release: Release, path: str | Path) -> None:
    """Write a release."""
    container.place_file(path, _packed(release)[0])


def _packed(release: Release) -> tuple[bytes, str]:
    return container.pack(RELEASE, *to_parts(release))


def to_parts(release: Release) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A release as JSON and arrays, for its own file and for a model's."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, stage in release.measurements.items():
        arrays |= {f"{name}/design/{key}": array for key, array in stage.design.arrays().items()}
        arrays |= {f"{name}/noisy/{family}": array for family, array in stage.sums.items()}
    meta = {
        "statement": {
            "epsilon": release.budget.epsilon,
            "delta": release.budget.delta,
            "relation": str(release.unit.relation),
            "rows_per_person": release.unit.rows_per_person,
            "mechanism": "rounded Gaussian on integers, analytic calibration (Balle & Wang 2018)",
        },
        "recipe": release.recipe,
        "plan": release.plan,
        "rows": release.rows,
        "types": dict(release.types),
        "dpearl": release.dpearl,
        "stages": [_described(name, stage) for name, stage in release.stages.items()],
    }
    asked = {"answers": [_described(name, stage) for name, stage in release.answers.items()]} if release.answers else {}
    return meta | asked, arrays


def _described(name: str, stage: Measurement) -> dict[str, Any]:
    return {"name": name, "design": stage.design.to_dict(), "digest": stage.design.digest, "sigmas": dict(stage.sigmas)}


def load_release(path: str | Path) -> Release:
    """Read a release and check that it is whole, consistent, and keeps its promise."""
    meta, arrays = container.read(path, RELEASE)
    return from_parts(meta, arrays, meta["digest"], path)


def load_release_inside(path: str | Path) -> tuple[Release, dict[str, Any] | None]:
    """The release that a file is, or that a model was learnt from, with how it was trained."""
    if container.kind_of(path) != MODEL:
        return load_release(path), None
    meta, arrays = container.read(path, MODEL)
    training = meta.get("training")
    if not isinstance(training, dict):
        raise FileError(f"{path}: is damaged: its parts do not fit together")
    return model_release(meta, arrays, path), training


def model_release(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], path: str | Path) -> Release:
    """The release in a model's parts, checked as if it were a file of its own."""
    own = {name.removeprefix("release/"): array for name, array in arrays.items() if name.startswith("release/")}
    return from_parts(meta.get("release", {}), own, str(meta.get("release_digest")), path)


def from_parts(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], digest: str, path: str | Path) -> Release:
    """The release of these parts, refused unless it has this digest, fits together and supports its own statement."""
    try:
        stages = {stage["name"]: _measurement(stage, arrays) for stage in meta["stages"]}
        statement = meta["statement"]
        release = Release(
            stages=stages,
            budget=Budget(statement["epsilon"], statement["delta"]),
            unit=Unit(Relation(statement["relation"]), statement["rows_per_person"]),
            recipe=meta["recipe"],
            plan=meta["plan"],
            rows=meta["rows"],
            types=meta["types"],
            dpearl=meta["dpearl"],
            answers={stage["name"]: _measurement(stage, arrays) for stage in meta.get("answers", [])},
        )
        if not _consistent(release) or release.digest != digest:
            raise ValueError("consistency")
        honest = release.epsilon <= release.budget.epsilon
    except container.UNFIT:
        raise FileError(f"{path}: is damaged: its parts do not fit together") from None
    if not honest:
        raise FileError(f"{path}: its noise does not support the epsilon it states; do not use it")
    return release


def _measurement(stage: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Measurement:
    def part(kind: str) -> dict[str, NDArray[Any]]:
        prefix = f"{stage['name']}/{kind}/"
        return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

    design, sums = load_design(stage["design"], part("design")), part("noisy")
    if design.digest != stage["digest"]:
        raise ValueError("design")
    sigmas = {family: int(sigma) for family, sigma in stage["sigmas"].items()}
    if not design.fits(sums) or sigmas.keys() != sums.keys() or len(design.blocks) != len(sums):
        raise ValueError("blocks")
    if min(sigmas.values()) < 1:
        raise ValueError("sigma")
    return Measurement(design, sums, sigmas)


def _consistent(release: Release) -> bool:
    """Whether what a release says of itself agrees with its schema: who is protected, and what is public."""
    schema, unit = release.schema, release.unit
    known = isinstance(release.rows, int) and release.rows >= 0
    times, rest = divmod(unit.rows_per_person, schema.rows_per_person)
    words = (release.recipe, release.plan, release.dpearl)
    return (
        isinstance(schema, Schema)
        and all(isinstance(word, str) for word in words)
        and release.embedding.design.codec.stores(release.types)
        and all(stage.design.schema == schema for stage in release.stages.values())
        and _answered(release)
        and type(unit.rows_per_person) is int
        and rest == 0
        and (times == 1 or schema.person is not None)
        and (known and schema.person is None if unit.relation is Relation.REPLACE_ONE else release.rows is None)
    )


def _answered(release: Release) -> bool:
    """Whether the schema is what the noisy answers say, and each stage asked what the answers before it led to."""
    if not release.answers:
        return True
    questions, replies = interview(release.declared, release.budget.delta), iter(release.answers.items())
    try:
        ask = next(questions)
        while True:
            name, reply = next(replies)
            if name != ask.stage or _asked(reply).digest != ask.design.digest:
                return False
            ask = questions.send(reply)
    except StopIteration as end:
        return end.value == release.schema and next(replies, None) is None


def _asked(reply: Measurement) -> Design:
    """What a reply was asked for: its design, without the levels that were found."""
    blocks = tuple(block.asked() if isinstance(block, Levels) else block for block in reply.design.blocks)
    return Design(reply.design.schema, blocks)


def this_version() -> str:
    """The version that makes a release."""
    return version("dpearl")
