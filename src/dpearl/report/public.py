"""The public report: what a release promises, how noisy it is, and how well a model fits it.

Made of the release inside a model and of synthetic rows, so that it can be made where real rows do not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from dpearl.chart import bars, bins_along, curve
from dpearl.coded import Coded, bin_names
from dpearl.embeddings.characteristic import Characteristic
from dpearl.goodness import Fit, block_fits
from dpearl.precision import estimated_rows, measured_counts, measured_shares, noises
from dpearl.privacy import Relation
from dpearl.release import Release, this_version
from dpearl.report.page import Page, png, render
from dpearl.schema import Column, Image, Schema
from dpearl.statement import answers, best_guess, best_test, privacy_statement
from dpearl.synthesizer import Synthesizer
from dpearl.write import picture_grid

ROWS, PICTURES = 2**15, 2**13
"""Synthetic rows that the report looks at; fewer where they hold pictures, which take longer to draw."""

SHOWN, ACROSS = 10, 10
"""Sample rows, and pictures of a class."""

MARK = "Public report: made from the release and synthetic rows only."

_SECTIONS = {
    "privacy": "What is promised",
    "ledger": "The ledger’s entry",
    "schema": "What was declared",
    "noise": "How noisy it is",
    "fit": "How well it fits",
    "columns": "Synthetic columns",
    "samples": "Ten synthetic rows",
    "making": "How it was made",
}

_STAGES = {"auxiliary": "first look", "ranges": "bounds, closer", "shapes": "modes, first"}
_FAMILIES = {
    "count": "rows of each class",
    "characteristic": "characteristic functions",
    "moments": "means and second moments of waves",
    "edges": "means and second moments of edges",
    "spread": "means and squares, for the scale",
    "singles": "single columns",
    "interactions": "columns by class, pairs of columns",
    "octaves": "rows in each octave, for bounds",
    "stretches": "rows in stretches of a line",
    "levels": "rows of the levels found",
    "mixtures": "means and squares of modes",
    "pairwise-distance": "mean distance of rows, for the scale",
}


def public_report(model: Synthesizer, charge: Mapping[str, str] | None = None, seed: int = 0) -> str:
    """The report as HTML: the same for the same model, charge and seed. `charge` is the ledger's entry in words."""
    release, schema = model.release, model.codec.schema
    pictured = any(isinstance(column, Image) for column in schema.columns.values())
    rows = Coded.join([Coded(model.codec, codes) for codes in model.codes(PICTURES if pictured else ROWS, seed=seed)])
    return render(
        "public.html",
        _page(schema, charge),
        release=release,
        schema=schema,
        charge=charge or {},
        delta=_power(release.budget.delta),
        replaced=release.unit.relation is Relation.REPLACE_ONE,
        rows=f"{estimated_rows(release):,.0f}",
        rows_seen=len(rows),
        measured=measured_counts(release, schema.label or "") is not None,
        statement=privacy_statement(release),
        **_attack(release),
        asked=answers(release),
        declared=[_declared(name, column, schema) for name, column in schema.columns.items()],
        noise=_noise_rows(release),
        **_fits(release, rows),
        charts=[_chart(release, rows, name) for name in rows.names],
        classes=_class_rows(release),
        pictures=[_pictures(rows, name) for name in schema.columns if name not in rows.names],
        samples=_samples(model, rows),
        making=_making(model, seed),
    )


def _page(schema: Schema, charge: Mapping[str, str] | None) -> Page:
    sections = {anchor: heading for anchor, heading in _SECTIONS.items() if charge or anchor != "ledger"}
    return Page(
        title="Synthetic data, and what protects the people behind it",
        mark=MARK,
        lead=(
            f"This file describes a differentially private release of {len(schema.columns)} columns and the generator that "
            "learnt from it. No real row was looked at to make it, and whoever reads it learns no more than the release tells."
        ),
        sections=sections,
    )


def _attack(release: Release) -> dict[str, Any]:
    """The best membership test at this μ: it catches Φ(Φ⁻¹(α) + μ) at a false alarm rate of α (Dong, Roth & Su)."""
    alarms, hits = best_test(release.mu)
    guess = f"{100 * best_guess(release.mu, release.lost):.1f}%"
    title = (
        f"Best membership test at mu {release.mu:.3f}: its curve of hits against false alarms, beside the diagonal of "
        f"guessing. In an even bet it is right {guess} of the time."
    )
    axes = ("false alarms", "hits")
    rates = [(f"{100 * rate:g}%", f"{100 * norm.cdf(norm.ppf(rate) + release.mu):.3g}%") for rate in (0.001, 0.01, 0.1, 0.5)]
    return {"roc": curve(title, {"best attacker": (alarms, hits)}, axes), "guess": guess, "rates": rates}


def _declared(name: str, column: Column, schema: Schema) -> tuple[str, str, str, str]:
    """A column as the owner declared it: name, kind, values, and whether cells may be missing."""
    missing = "yes" if getattr(column, "missing", False) else "no"
    kind = f"{column.kind}, the label" if name == schema.label else column.kind
    return name, kind, column.values, missing


def _noise_rows(release: Release) -> list[tuple[str, ...]]:
    """Each block: what it is, stage, values, part of the budget, noise on an average, against signal, in a word."""
    return [
        (
            _FAMILIES.get(own.family, own.family),
            _STAGES.get(own.stage, own.stage),
            f"{own.values:,}",
            f"{100 * own.share:.1f}%",
            _small(own.average),
            _small(own.relative),
            own.verdict,
        )
        for own in noises(release)
    ]


def _fits(release: Release, rows: Coded) -> dict[str, Any]:
    """Tables of χ²: of the blocks, and of each class."""
    found = block_fits(release, rows)
    blocks = [(_FAMILIES.get(own.family, own.family), _STAGES.get(own.stage, own.stage), *_told(own.whole)) for own in found]
    return {"fits": blocks, "class_fits": [(name, *_told(fit)) for own in found for name, fit in own.classes.items()]}


def _told(fit: Fit) -> tuple[str, str, str, str]:
    return f"{fit.values:,}", f"{fit.chi2:,.2f}", _small(fit.off), fit.verdict


def _power(value: float) -> str:
    """A small number as people write it: 10⁻⁵."""
    digits, _, exponent = f"{value:g}".partition("e-")
    power = str(int(exponent or 0)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits} · 10⁻{power}".removeprefix("1 · ") if exponent else digits


def _small(value: float) -> str:
    if not np.isfinite(value):
        return "beyond all"
    return f"{value:.2g}" if value >= 0.0001 else "0" if value == 0 else "< 0.0001"


def _chart(release: Release, rows: Coded, name: str) -> tuple[str, str, str]:
    """A column's heading, caption and histogram, with the release's own count where there is one."""
    column, kind = rows.codec.columns[name], rows.schema.columns[name].kind
    names, shares = np.array(bin_names(column)), rows.shares(name)
    most = f"most often {names[shares.argmax()]} ({100 * shares.max():.0f}%)"
    title = f"{name}: shares of synthetic rows, {most}"
    measured = measured_shares(release, name) if name == rows.schema.label else None
    if measured is None:
        return name, kind, bars(title, names.tolist(), {"synthetic rows": shares}, along=bins_along(column))
    shown = (measured.lower > 0) | np.isin(np.arange(len(names)), rows.codec.labels)
    series = {"synthetic rows": shares[shown], "released, 95% interval": measured.values[shown]}
    svg = bars(title, names[shown].tolist(), series, {"released, 95% interval": measured.errors[:, shown]})
    return name, f"{kind}, the label", svg


def _class_rows(release: Release) -> list[tuple[str, ...]]:
    """Each class of the label: rows and share, both with their intervals."""
    label = release.embedding.design.schema.label or ""
    counts, shares = measured_counts(release, label), measured_shares(release, label)
    if counts is None or shares is None:
        return []
    names = bin_names(release.embedding.design.codec.columns[label])
    half = counts.upper - counts.values
    told = zip(names, counts.values, half, shares.values, shares.lower, shares.upper, strict=True)
    return [
        (name, f"{rows:,.0f} ± {error:,.0f}".replace("-", "−"), f"{100 * share:.2f}%", f"{100 * low:.2f}% to {100 * high:.2f}%")
        for name, rows, error, share, low, high in told
    ]


def _pictures(rows: Coded, name: str) -> dict[str, Any]:
    """Some pictures of each class, in a line."""
    label = rows.schema.label if rows.codec.classes > 1 else None
    groups = _groups(rows, label)
    return {"name": name, "lines": [(group, *_strip(rows, name, places)) for group, places in groups.items()]}


def _groups(rows: Coded, label: str | None) -> dict[str, NDArray[np.int64]]:
    """The first rows of each class that the generator makes; without a label, some lines of rows."""
    if label is None:
        return {f"{first + 1} to {first + ACROSS}": np.arange(first, first + ACROSS) for first in range(0, 5 * ACROSS, ACROSS)}
    names = bin_names(rows.codec.columns[label])
    found = {names[place]: np.flatnonzero(rows.codes[label] == place)[:ACROSS] for place in rows.codec.labels}
    return {name: places for name, places in found.items() if len(places)}


def _strip(rows: Coded, name: str, places: NDArray[np.int64]) -> tuple[str, int, int]:
    """Pictures side by side: their address, width and height."""
    column = rows.schema.columns[name]
    assert isinstance(column, Image)
    stack = rows.codes[name][places, :-1].reshape(-1, column.height, column.width, column.channels)
    return png(picture_grid(stack, len(stack))), len(stack) * column.width, column.height


def _samples(model: Synthesizer, rows: Coded) -> list[list[Any]]:
    """The first rows as text, in the types that real ones came in; a picture as its address and size."""
    table = model.codec.decode(rows.take(np.arange(SHOWN)).codes, model.release.types)
    columns = [
        [_strip(rows, name, np.array([place])) for place in range(SHOWN)]
        if name not in rows.names
        else ["missing" if cell is None else str(cell) for cell in table.column(name).to_pylist()]
        for name in rows.schema.columns
    ]
    return [[str(number), *cells] for number, cells in enumerate(zip(*columns, strict=True), start=1)]


def _making(model: Synthesizer, seed: int) -> dict[str, str]:
    release = model.release
    block = release.embedding.design.find(Characteristic)
    drawn = {"Frequencies": f"{block.frequencies:,} at scale {block.scale:.4g}, public seed {block.seed}"} if block else {}
    training = {f"Training: {name.replace('_', ' ')}": str(value) for name, value in sorted(model.training.items())}
    return {
        "Recipe": release.recipe,
        **drawn,
        **training,
        "Seed of these rows": str(seed),
        "dpearl": f"{release.dpearl} made the release, {this_version()} this report",
        "Plan": release.plan,
        "Design": release.embedding.design.digest,
        "Release": release.digest,
    }
