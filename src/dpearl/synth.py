"""All of it in one go: rows in, synthetic rows out, with the release and the model kept.

The one place where both sides meet. Nothing flows but the release: `release_rows` sees the data,
`fit` sees what that returned.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from dpearl.card import Card, Carded
from dpearl.design import Recipe, recipe_named
from dpearl.errors import UsageError, meant
from dpearl.moment import Moment, Watch
from dpearl.owner import Offer, Stages, recipe_with, release_rows
from dpearl.privacy import Budget, Relation
from dpearl.read.memory import empty_like, like
from dpearl.release import Release
from dpearl.schema import Declaration, Schema, load_declaration
from dpearl.settings import AnySettings, check_seed
from dpearl.synthesizer import Synthesizer
from dpearl.train import fit


class PEARL(Carded):
    """Rows in, synthetic rows out, by scikit-learn's habits: choose, `fit` once, `sample` for ever.

        pearl = dpearl.PEARL("schema.toml", epsilon=1.0, ledger="ledger.jsonl").fit(people)
        synthetic = pearl.sample(10_000)  # pandas for pandas, polars for polars, else Arrow
        print(pearl.statement_)

    `fit` is the only step that sees rows, and each call of it is a release of its own that costs its whole epsilon. So does each
    fit of a clone: a search over five settings, or five folds, costs five releases, of which most rows are in four. Give a
    ledger: a new one holds just this budget, all clones share it, and it refuses the second fit before a row is read. Tune on
    one release instead: `dpearl.fit(pearl.release_, settings)` sees no rows and costs nothing.

    It can be the last step of a `Pipeline` whose other steps look at one row at a time (renaming, joining levels, picking
    columns); it then samples from `pipeline[-1]`. A step that learns from all rows (a scaler, an imputer) would see them outside
    the budget. It has no `predict` and no `score`, and takes no `y`: the label is a column that the schema names.

    Parameters are those of `dpearl synth`: `schema` (a file or a value), `epsilon`, `delta`, `recipe` (a name or a `Recipe`),
    `relation` where it is not the recipe's, `ledger` to charge, `settings` and `seed` of training. Noise has no seed.

    After `fit`: `release_` (all that was learnt of the rows), `model_` (the trained `Synthesizer`), `schema_` (with what was
    asked for), `statement_` (the privacy statement) and `history_` (a `Moment` for every 50 steps of training).
    """

    model_: Synthesizer
    history_: list[Moment]

    def __init__(
        self,
        schema: Declaration | str | Path,
        epsilon: float,
        delta: float = 1e-5,
        recipe: str | Recipe = "auto",
        relation: Relation | str | None = None,
        ledger: str | Path | None = None,
        settings: AnySettings | None = None,
        seed: int = 0,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.recipe = recipe
        self.relation = relation
        self.ledger = ledger
        self.settings = settings
        self.seed = seed

    def fit(self, rows: Any, y: None = None, *, progress: Stages | None = None, watch: Watch | None = None) -> Self:
        """Release the rows (a path or a table) under this budget, charge the ledger, and train on the release."""
        if y is not None:
            raise UsageError("the label is one of the rows' columns, which the schema names; leave out y")
        offer = self._offer()
        check_seed(self.seed)
        release = release_rows(rows, offer, self.ledger, progress=progress)
        history: list[Moment] = []

        def seen(moment: Moment) -> None:
            history.append(moment)
            if watch is not None:
                watch(moment)

        self.model_ = fit(release, self.settings, self.seed, watch=seen)
        self.history_, self._frame = history, empty_like(rows)
        return self

    def _offer(self) -> Offer:
        declared = self.schema if isinstance(self.schema, Declaration) else load_declaration(self.schema)
        recipe = recipe_named(self.recipe) if isinstance(self.recipe, str) else self.recipe
        if self.relation is not None:
            recipe = recipe_with(recipe, _relation(self.relation), None, None)
        return Offer(declared, recipe, Budget(self.epsilon, self.delta))

    def sample(self, rows: int, where: Mapping[str, Any] | None = None, seed: int = 0) -> Any:
        """Synthetic rows in the kind of table that was fitted; `where` gives columns a value: `{"sex": "Female"}`."""
        model = self._fitted()
        gaps = {name for name, column in model.codec.schema.columns.items() if getattr(column, "missing", False)}
        return like(model.sample(rows, where, seed), self._frame, gaps)

    def _fitted(self) -> Synthesizer:
        if not self.__sklearn_is_fitted__():
            raise UsageError("nothing has been fitted yet; call fit(rows) first")
        return self.model_

    @property
    def release_(self) -> Release:
        """All that was learnt of the rows."""
        return self.model_.release

    @property
    def schema_(self) -> Schema:
        """The schema, with answers where it asked."""
        return self.release_.schema

    @property
    def statement_(self) -> str:
        """The privacy statement."""
        return self.model_.statement

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters as they were given; none holds others, so `deep` changes nothing."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Other parameters; what was fitted stays until the next fit."""
        known = list(self.get_params())
        for name, value in params.items():
            if name not in known:
                raise UsageError(f"PEARL has no parameter {name!r}{meant(name, known)}; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        """Asked by scikit-learn alone, which is then loaded; nothing else here needs it."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __repr__(self) -> str:
        plain = inspect.signature(type(self)).parameters
        given = {name: value for name, value in self.get_params().items() if value is not plain[name].default}
        return f"PEARL({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def card(self) -> Card:
        """Its parameters; once fitted, those of its model too."""
        lines: list[tuple[str, ...]] = [(name, _told(value)) for name, value in self.get_params().items()]
        if not self.__sklearn_is_fitted__():
            return Card("PEARL, not fitted yet", lines)
        return Card("PEARL, fitted", [*lines, *self.model_.card().lines])


def _relation(named: Relation | str) -> Relation:
    known = [str(relation) for relation in Relation]
    if named not in known:
        raise UsageError(f"unknown relation {str(named)!r}{meant(str(named), known)}; use {' or '.join(known)}")
    return Relation(named)


def _told(value: Any) -> str:
    return "the recipe's" if value is None else str(value) if isinstance(value, (str, Path)) else repr(value)
