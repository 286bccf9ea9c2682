"""Differentially private data synthesis by private embeddings (PEARL, ICLR 2022).

    import dpearl

    pearl = dpearl.PEARL("schema.toml", epsilon=1.0, ledger="ledger.jsonl").fit(people)  # a path, Arrow, pandas or polars
    synthetic = pearl.sample(10_000)  # the same kind of table
    print(pearl.statement_)

or stage by stage:

    offer = dpearl.Offer(dpearl.load_schema("schema.toml"), dpearl.RECIPES["auto"], dpearl.Budget(1.0, 1e-5))
    release = dpearl.release_rows(people, offer, ledger_path="ledger.jsonl")  # the only step that sees rows
    model = dpearl.fit(release)
    table = model.sample(10_000, where={"sex": "Female"}, seed=1)

Names are looked up when they are used, so that the public side never loads a reader of rows.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpearl import plot
    from dpearl.design import RECIPES, Recipe
    from dpearl.engines.dask import Dask
    from dpearl.engines.local import Local
    from dpearl.engines.spark import Spark
    from dpearl.generator import Axes, Network
    from dpearl.moment import Moment
    from dpearl.owner import Offer, release_rows, release_sums
    from dpearl.privacy import Budget, Relation, Unit
    from dpearl.release import Release, load_release, save_release
    from dpearl.schema import Schema, load_schema, parse_schema
    from dpearl.settings import MixtureSettings, Omega, PictureSettings, Settings
    from dpearl.statement import privacy_statement
    from dpearl.synth import PEARL
    from dpearl.synthesizer import Synthesizer, load_synthesizer, save_synthesizer
    from dpearl.train import fit

__all__ = [
    "PEARL",
    "RECIPES",
    "Axes",
    "Budget",
    "Dask",
    "Local",
    "MixtureSettings",
    "Moment",
    "Network",
    "Offer",
    "Omega",
    "PictureSettings",
    "Recipe",
    "Relation",
    "Release",
    "Schema",
    "Settings",
    "Spark",
    "Synthesizer",
    "Unit",
    "fit",
    "load_release",
    "load_schema",
    "load_synthesizer",
    "parse_schema",
    "plot",
    "privacy_statement",
    "release_rows",
    "release_sums",
    "save_release",
    "save_synthesizer",
]

_HOMES = {
    "design": ("RECIPES", "Recipe"),
    "engines.dask": ("Dask",),
    "engines.local": ("Local",),
    "engines.spark": ("Spark",),
    "generator": ("Axes", "Network"),
    "moment": ("Moment",),
    "owner": ("Offer", "release_rows", "release_sums"),
    "privacy": ("Budget", "Relation", "Unit"),
    "release": ("Release", "load_release", "save_release"),
    "schema": ("Schema", "load_schema", "parse_schema"),
    "settings": ("MixtureSettings", "Omega", "PictureSettings", "Settings"),
    "statement": ("privacy_statement",),
    "synth": ("PEARL",),
    "synthesizer": ("Synthesizer", "load_synthesizer", "save_synthesizer"),
    "train": ("fit",),
}


_ROOMS = ("plot",)
"""Modules that users reach by name."""


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"dpearl.{name}")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"dpearl.{home}"), name)
    raise AttributeError(f"module 'dpearl' has no attribute {name!r}")
