"""Several sites, one release, and nobody who sees a site's sum: secret shares and noise in parts.

    study      all sites agree on a design, a budget, their names and how many of them may be dishonest
    share      a site sums its rows, adds its part of the noise, and splits that into one share for each site
    combine    a site adds the shares that it got, one from each site, and passes on their sum
    open       these sums add up to the noisy total: the release

Guarantee: whoever pools what up to t dishonest sites know, with everything that is published, learns the total of the honest
sites' noisy sums and nothing else of them; that total is (ε, δ)-DP (`sanitize_part`). Reason: a site's shares but one are
uniform, and at least one stays with an honest site, which passes it on only inside a sum over all sites. Dishonest sites can
spoil the result, and tell of their own rows; they cannot lower the noise on those of others. Threat model: docs/sites.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpearl import container
from dpearl.design import Design, Recipe, Scale, load_design, recipe_named
from dpearl.engines import Engine
from dpearl.errors import FileError, UsageError
from dpearl.letters import visible
from dpearl.owner import Offer, Stages, charge, check_ledger, embed_all, shard_design
from dpearl.privacy import Budget, Relation
from dpearl.read import open_sources
from dpearl.release import Measurement, Release, this_version
from dpearl.sanitize import sanitize_part
from dpearl.schema import Schema
from dpearl.sharing import Share, joined, split
from dpearl.sums import blocks_of

MAX_NAME = 100
"""Bytes of a site's name; two of them stand in the name of a share, which file systems limit to 255."""

STUDY, SHARE, COMBINED = "dpearl-study", "dpearl-share", "dpearl-combined"


@dataclass(frozen=True, eq=False)
class Study:
    """What all sites agree on before any of them reads a row. Public."""

    design: Design
    recipe: str
    budget: Budget
    sites: tuple[str, ...]
    dishonest: int
    nonce: str

    def __post_init__(self) -> None:
        if len(self.sites) < 2 or len(set(self.sites)) < len(self.sites):
            raise UsageError("a study needs two sites or more, each with a name of its own; repeat --site")
        if any(not name or "/" in name or name.startswith(".") or visible(name) != name for name in self.sites):
            raise UsageError("a site's name becomes part of file names: no slash or control character in it, no dot at its start")
        if any(len(name.encode()) > MAX_NAME for name in self.sites):
            raise UsageError(f"a site's name becomes part of file names: at most {MAX_NAME} bytes")
        if type(self.dishonest) is not int or not 0 <= self.dishonest < len(self.sites):
            raise UsageError("--dishonest must lie between 0 and the number of sites less one: somebody must be honest")

    @property
    def honest(self) -> int:
        """Sites whose noise must be enough."""
        return len(self.sites) - self.dishonest

    @property
    def offer(self) -> Offer:
        """The whole cost; where persons are named, each may be at every site."""
        recipe = replace(recipe_named(self.recipe), relation=Relation.ADD_REMOVE, scale=Scale.PUBLIC)
        return Offer(self.design.schema, recipe, self.budget, shards=len(self.sites), sums=self.design)


@dataclass(frozen=True, eq=False)
class SecretShare:
    """From one site to another; or, combined, from all sites by way of one."""

    study: str
    sender: str | None
    holder: str
    values: Share
    types: Mapping[str, str]


def plan_study(schema: Schema, recipe: Recipe, budget: Budget, sites: Sequence[str], dishonest: int, seed: int) -> Study:
    """A study under a design that needs nothing from the data."""
    if recipe.relation is not Relation.ADD_REMOVE:
        raise UsageError("sharing protects the number of rows, too; add --relation add-remove")
    return Study(shard_design(schema, recipe, seed), recipe.name, budget, tuple(sites), dishonest, secrets.token_hex(16))


def share_rows(
    data: Any,
    study: Study,
    site: str,
    ledger_path: str | Path | None = None,
    output: str = "",
    engine: Engine | None = None,
    progress: Stages | None = None,
) -> list[SecretShare]:
    """A site's noisy sums as secret shares, one for each site; charged before noise is drawn."""
    if site not in study.sites:
        raise UsageError(f"{site!r} is no site of this study; its sites are {', '.join(study.sites)}")
    offer = study.offer
    check_ledger(offer, ledger_path)
    sums = embed_all(open_sources(data), study.design, engine, progress)
    charge(offer, ledger_path, output)
    noisy = sanitize_part(sums, study.budget, offer.targets["embedding"], offer.unit, study.honest)
    vector = np.concatenate([noisy[block.family].ravel() for block in study.design.blocks])
    parts = zip(study.sites, split(vector, len(study.sites)), strict=True)
    return [SecretShare(_packed(study)[1], site, holder, part, sums.types) for holder, part in parts]


def combine(study: Study, shares: Sequence[SecretShare]) -> SecretShare:
    """The sum of the shares that one site holds, one from each site: less would let sums be told apart."""
    holders = {share.holder for share in shares}
    if len(holders) > 1:
        raise UsageError(f"these shares are for different sites ({', '.join(sorted(holders))}); combine those for one site")
    _complete(study, shares, [str(share.sender) for share in shares], "share from site")
    return SecretShare(shares[0].study, None, holders.pop(), joined([share.values for share in shares]), shares[0].types)


def open_release(study: Study, combined: Sequence[SecretShare]) -> Release:
    """The release that all sites' combined shares add up to. Its σ is what honest sites guarantee; there may be more noise."""
    _complete(study, combined, [share.holder for share in combined], "combined share of site")
    total: NDArray[np.int64] = joined([share.values for share in combined]).view(np.int64)
    offer, design = study.offer, study.design
    sigmas = design.sigmas(offer.targets["embedding"], offer.unit)
    measured = Measurement(design, blocks_of(np.concatenate([[0], total]), design), sigmas)
    types = combined[0].types
    return Release({"embedding": measured}, study.budget, offer.unit, study.recipe, offer.digest, None, types, this_version())


def _complete(study: Study, shares: Sequence[SecretShare], names: Sequence[str], what: str) -> None:
    """Refuse shares of another study, and name those that are missing or there twice."""
    if any(share.study != _packed(study)[1] for share in shares):
        raise UsageError("a share belongs to another study; all sites must use the same study file")
    for site in study.sites:
        if names.count(site) != 1:
            fault = "is missing: get it" if site not in names else "is given twice: leave one out"
            raise UsageError(f"the {what} {site!r} {fault}, or agree on a new study")


def _packed(study: Study) -> tuple[bytes, str]:
    meta = {
        "design": study.design.to_dict(),
        "recipe": study.recipe,
        "epsilon": study.budget.epsilon,
        "delta": study.budget.delta,
        "sites": list(study.sites),
        "dishonest": study.dishonest,
        "nonce": study.nonce,
    }
    return container.pack(STUDY, meta, study.design.arrays())


def save_study(study: Study, path: str | Path) -> None:
    """Write what all sites agree on."""
    container.place_file(path, _packed(study)[0])


def load_study(path: str | Path) -> Study:
    """Read what all sites agree on."""
    meta, arrays = container.read(path, STUDY)
    try:
        design, budget = load_design(meta["design"], arrays), Budget(meta["epsilon"], meta["delta"])
        recipe_named(meta["recipe"])
        return Study(design, meta["recipe"], budget, tuple(meta["sites"]), meta["dishonest"], meta["nonce"])
    except container.UNFIT:
        raise FileError(f"{path}: is damaged: its parts do not fit together") from None


def save_share(share: SecretShare, path: str | Path) -> None:
    """Write a share, readable by its owner alone."""
    meta = {
        "PRIVATE": "a secret share: for its holder alone; with all other shares of its sender it gives that site's noisy sums",
        "study": share.study,
        "sender": share.sender,
        "holder": share.holder,
        "types": dict(share.types),
    }
    kind = COMBINED if share.sender is None else SHARE
    container.place_file(path, container.pack(kind, meta, {"share": share.values})[0], mode=0o600)


def save_shares(shares: Sequence[SecretShare], folder: str | Path) -> None:
    """Write all shares of a site into a new folder, or none: shares of two runs do not add up."""
    with container.placing_folder(folder) as draft:
        for share in shares:
            save_share(share, draft / f"{share.sender}-to-{share.holder}.share")


def load_share(path: str | Path, study: Study, kind: str) -> SecretShare:
    """Read a share of this kind and study."""
    meta, arrays = container.read(path, kind)
    size = sum(int(np.prod(block.shape)) for block in study.design.blocks)
    try:
        share = SecretShare(meta["study"], meta["sender"], meta["holder"], arrays["share"], dict(meta["types"]))
        fits = study.design.codec.stores(share.types)
    except container.UNFIT:
        fits = False
    if not fits:
        raise FileError(f"{path}: is damaged: its parts do not fit together")
    if share.values.dtype != np.uint64 or share.values.shape != (size,):
        raise FileError(f"{path}: does not fit the study's design; is it a share of another study?")
    return share
