"""What synthetic data are good for and what not, in sentences that somebody without statistics can act on.

The limits are rules of thumb, public and the same for every table. They say something of usefulness and nothing of privacy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpearl.disclosure import Closest, Copies, Skipped
from dpearl.evaluate import Evaluation, Judged
from dpearl.fidelity import Score
from dpearl.utility import BOOSTING, CEILING, FLOOR, Usefulness

if TYPE_CHECKING:
    from dpearl.imagery import Accuracy
    from dpearl.shadow import Membership

_CLOSE, _FAIR = 0.03, 0.10
"""Total variation up to which counts can be taken as they are, and up to which as a rough picture."""

_CHANCE, _OUTLIER = 1.5, 3
"""How many times fresh real rows a mean, and its worst part, may be off and still count as near."""

_LEARNT, _BEGUN = 0.85, 0.5
"""Of the way from guessing to real rows: for a model that may stand in for theirs, and for a first trial."""

_SEEN = 0.05
"""Least way from guessing to real rows of which parts can be told from chance."""

_TOLD_APART = 0.75
"""ROC AUC from which a synthetic row is easily told from a real one."""

_KINDS = {
    "marginals_1": ("counts and shares of single columns", "column"),
    "marginals_2": ("cross tables of two columns", "pair of columns"),
    "marginals_3": ("cross tables of three columns", "triple of columns"),
}

_ORDER = (True, None, False)
"""Uses, what is neither, limits."""


@dataclass(frozen=True)
class Sentence:
    """A verdict and what it rests on; `good` None where it is neither a use nor a limit."""

    verdict: str
    reason: str
    good: bool | None = None


Figure = tuple[str, str]
"""A number to be seen from afar, and what it is."""


def summary(evaluation: Evaluation, name: str) -> list[Sentence]:
    """All that can be said of one synthetic table: what is alarming, then uses, then limits."""
    judged = evaluation.tables[name]
    few = Sentence("Not for single people or small groups", "What a few dozen rows show must be checked on real ones.", False)
    said = [
        *_pictures(judged, evaluation.real.schema.label),
        *_counts(judged),
        *_learning(evaluation.usefulness, name),
        *_apart(judged),
        *_invalid(judged),
        few,
    ]
    alarms = [check for check in (*checks(judged), *attacks(evaluation)) if check.good is False]
    looks = [replace(alarm, verdict=f"A sanity check must be looked at: {alarm.verdict.lower()}") for alarm in alarms]
    return [*looks, *sorted(said, key=lambda sentence: _ORDER.index(sentence.good))]


def figures(evaluation: Evaluation, name: str) -> list[Figure]:
    """The few numbers of one synthetic table that people ask for first, each beside what real rows have."""
    judged = evaluation.tables[name]
    return [
        *_picture_figures(judged),
        *_count_figures(judged),
        *_skill_figures(evaluation.usefulness, name),
        *_apart_figures(judged),
    ]


def _picture_figures(judged: Judged) -> Iterator[Figure]:
    own = judged.imagery
    if own is None:
        return
    if own.accuracy is not None and own.ceiling is not None:
        ceiling = f"from real ones: {_share(own.ceiling)}"
        yield _share(own.accuracy), f"of real pictures are known to a net that learnt from these; {ceiling}"
    yield f"{own.scores.fid:.2f}", f"Fréchet distance of the pictures; of fresh real ones: {own.floor.fid:.2f}"


def _count_figures(judged: Judged) -> Iterator[Figure]:
    for key in ("marginals_1", "marginals_2"):
        score = judged.score(key)
        if score is not None:
            yield _percent(score.value), f"of the rows are in the wrong place in an average {_KINDS[key][1]}{_fresh(score)}"


def _skill_figures(found: Usefulness | None, name: str) -> Iterator[Figure]:
    made, ceiling = (None if found is None else _boosting(found, place) for place in (name, CEILING))
    if found is not None and made is not None:
        beside = "" if ceiling is None else f"; from real rows: {ceiling:.3f}"
        yield f"{made:.3f}", f"{_measure(found)} for {found.target}, learnt from these rows{beside}"


def _apart_figures(judged: Judged) -> Iterator[Figure]:
    score = judged.score("c2st")
    if score is not None:
        yield f"{100 * score.value:.0f} in 100", "synthetic rows are told from real ones; guessing: 50"


def _pictures(judged: Judged, label: str | None) -> list[Sentence]:
    """Whether pictures show what their label says, and whether a net learns it from them."""
    own = judged.imagery
    if own is None:
        return []
    distance = f"Fréchet distance {own.scores.fid:.2f}, of fresh real pictures {own.floor.fid:.2f}"
    if own.agreement is None or own.accuracy is None or own.ceiling is None:
        return [Sentence("Whether pictures fit a label cannot be told", f"{distance}.")]
    seen = f"A net that learnt from real pictures finds their label in {_share(own.agreement)} of them ({distance})."
    learnt = f"A net that learns {label} from them is right for {_share(own.accuracy)} of real pictures"
    ceiling = f"one that learns from real ones for {_share(own.ceiling)}."
    way = own.accuracy.overall / own.ceiling.overall if own.ceiling.overall else 0.0
    return [
        _graded(own.agreement.overall, "pictures as examples of their label", seen),
        _graded(way, f"training nets that see {label} in pictures", f"{learnt}; {ceiling}"),
    ]


def _graded(way: float, use: str, reason: str) -> Sentence:
    """A use by the part of the way that is done: from nothing, 0, to what real rows give, 1."""
    if way >= _LEARNT:
        return Sentence(f"Good for {use}", reason, True)
    if way >= _BEGUN:
        return Sentence(f"Enough for first trials of {use}", reason)
    return Sentence(f"Not good for {use}", reason, False)


def _share(accuracy: Accuracy) -> str:
    return _percent(accuracy.overall)


def _counts(judged: Judged) -> list[Sentence]:
    found = [(judged.score(key), *words) for key, words in _KINDS.items()]
    return [_marginal(score, use, each) for score, use, each in found if score is not None]


def _marginal(score: Score, use: str, each: str) -> Sentence:
    """Close means close, or as close as fresh real rows; where these are far apart themselves, nothing can be told."""
    floor, (part, worst) = score.floor or 0.0, score.worst[0]
    reason = f"In an average {each}, {_percent(score.value)} of the rows are in the wrong place{_fresh(score)}"
    reason += f". The worst is {part} with {_percent(worst)}." if len(score.worst) > 1 else "."
    if score.value > max(_CLOSE, _CHANCE * floor):
        rough = score.value <= _FAIR
        return Sentence(f"{'A rough picture of' if rough else 'Not good for'} {use}", reason, None if rough else False)
    if floor > _FAIR:
        return Sentence(f"Too few real rows to judge {use}", reason)
    return Sentence(f"Good for {'most ' if worst > max(_FAIR, _OUTLIER * floor) else ''}{use}", reason, True)


def _fresh(score: Score) -> str:
    return "" if score.floor is None else f"; of fresh real rows: {_percent(score.floor)}"


def _learning(found: Usefulness | None, name: str) -> list[Sentence]:
    """By gradient boosting, from where guessing stands: independent columns are right or wrong by chance where there are few."""
    if found is None:
        return []
    made, ceiling, floor = (_boosting(found, place) for place in (name, CEILING, FLOOR))
    if made is None or ceiling is None or floor is None:
        return [Sentence(f"Whether {found.target} can be learnt cannot be told", " ".join(told(note) for note in found.notes))]
    reason = (
        f"Gradient boosting that learns from them reaches {_measure(found)} {made:.3f} on real rows, against {ceiling:.3f} "
        f"from real rows and {floor:.3f} from columns that know nothing of each other."
    )
    guess = 0.0 if found.task == "regression" else 0.5
    if ceiling < guess + _SEEN:
        return [Sentence(f"Real rows themselves hardly teach anything of {found.target}", reason)]
    return [_graded((made - guess) / (ceiling - guess), f"training models of {found.target}", reason)]


def _boosting(found: Usefulness, place: str) -> float | None:
    key = "r2" if found.task == "regression" else "roc"
    return next((skill.scores[key] for skill in found.skills.get(place, ()) if skill.learner == BOOSTING), None)


def _measure(found: Usefulness) -> str:
    return "R²" if found.task == "regression" else "ROC AUC"


def told(note: str) -> str:
    """A note as a sentence."""
    return f"{note[:1].upper()}{note[1:]}."


def _apart(judged: Judged) -> list[Sentence]:
    score = judged.score("c2st")
    if score is None or score.value < _TOLD_APART:
        return []
    told = f"Shown a synthetic row and a real one, a classifier tells which is which {100 * score.value:.0f} times in 100."
    reason = f"{told} Relations among many columns are not all there, so check what you find on real rows."
    return [Sentence("Easily told from real rows", reason, False)]


def _invalid(judged: Judged) -> list[Sentence]:
    score = judged.score("invalid")
    if score is None or score.value == 0:
        return []
    reason = f"{_percent(score.value)} of them hold a cell that the schema does not allow; none should."
    return [Sentence("Not all rows are valid", reason, False)]


def checks(judged: Judged) -> list[Sentence]:
    """Sanity checks of one table."""
    return [_check("Exact copies", judged.copies), _check("Closest record", judged.closest)]


def attacks(evaluation: Evaluation) -> list[Sentence]:
    """Sanity checks of the method that made the tables."""
    return [] if evaluation.membership is None else [_check("Membership attack", evaluation.membership)]


def _check(title: str, check: Copies | Closest | Membership | Skipped) -> Sentence:
    """A limit where it must be looked at, else neither: a check that finds nothing proves nothing."""
    return Sentence(title, check.verdict, None if isinstance(check, Skipped) or check.passed else False)


def _percent(share: float) -> str:
    return "0%" if share == 0 else f"{100 * share:.1f}%" if share >= 0.001 else "less than 0.1%"
