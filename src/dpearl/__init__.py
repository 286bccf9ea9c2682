"""Differentially private data synthesis by private embeddings (PEARL, ICLR 2022).

from dpearl import Budget, Offer, RECIPES, load_schema, release, save_release

offer = Offer(load_schema("schema.toml"), RECIPES["auto"], Budget(epsilon=1.0, delta=1e-5))
made = release(rows, offer, ledger_path="ledger.jsonl")   # a path, or an Arrow, pandas or polars table
save_release(made, "out.dpearl")
"""

from dpearl.design import RECIPES, Recipe
from dpearl.owner import Offer, release
from dpearl.privacy import Budget, Relation, Unit
from dpearl.release import Release, load_release, save_release
from dpearl.schema import Schema, load_schema, parse_schema
from dpearl.statement import statement

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
    "release",
    "save_release",
    "statement",
]
