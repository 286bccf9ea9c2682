"""Differentially private data synthesis by private embeddings (PEARL, ICLR 2022).

    import dpearl

    offer = dpearl.Offer(dpearl.load_schema("schema.toml"), dpearl.RECIPES["auto"], dpearl.Budget(1.0, 1e-5))
    made = dpearl.release_rows(rows, offer, ledger_path="ledger.jsonl")  # a path, Arrow, pandas or polars
    dpearl.save_release(made, "out.dpearl")

Names are looked up when they are used, so that the public side never loads a reader of rows.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpearl.design import RECIPES, Recipe
    from dpearl.owner import Offer, release_rows, release_sums
    from dpearl.privacy import Budget, Relation, Unit
    from dpearl.release import Release, load_release, save_release
    from dpearl.schema import Schema, load_schema, parse_schema
    from dpearl.statement import privacy_statement

__all__ = [
    "RECIPES",
    "Budget",
    "Offer",
    "Recipe",
    "Relation",
    "Release",
    "Schema",
    "Unit",
    "load_release",
    "load_schema",
    "parse_schema",
    "privacy_statement",
    "release_rows",
    "release_sums",
    "save_release",
]

_HOMES = {
    "design": ("RECIPES", "Recipe"),
    "owner": ("Offer", "release_rows", "release_sums"),
    "privacy": ("Budget", "Relation", "Unit"),
    "release": ("Release", "load_release", "save_release"),
    "schema": ("Schema", "load_schema", "parse_schema"),
    "statement": ("privacy_statement",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"dpearl.{home}"), name)
    raise AttributeError(f"module 'dpearl' has no attribute {name!r}")
