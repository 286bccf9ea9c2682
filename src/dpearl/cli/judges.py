"""Commands that judge: the owner's evaluation, which is PRIVATE, the public report, and the audit of what is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpearl import audit as auditing
from dpearl import container
from dpearl import ledger as ledgers
from dpearl.cli import say, show
from dpearl.cli.options import AsJson, LedgerShown, ModelFile, Output, Quiet, SchemaFile, verbs
from dpearl.cli.public_side import fit_kind, need_torch
from dpearl.design import Scale, recipe_named
from dpearl.embeddings.characteristic import Characteristic
from dpearl.errors import FileError, UsageError
from dpearl.owner import recipe_with
from dpearl.read import open_sources
from dpearl.release import RELEASE, Release, load_release_inside
from dpearl.schema import load_schema

if TYPE_CHECKING:
    from dpearl.evaluate import Evaluation
    from dpearl.imagery import LeNet
    from dpearl.synthesizer import Synthesizer

_OWNER_ONLY = 0o600

_TRIALS = 40
"""Of the membership attack: half teach it, the other half judge it. They take about a minute."""


app = verbs()


@app.command(
    epilog=say.examples(
        "dpearl evaluate --real test.csv --train people.csv --synth s.csv --schema s.toml -o eval.html",
        "dpearl evaluate --real test.csv --synth one.csv --synth two.csv --schema s.toml -o eval.json",
    )
)
def evaluate(
    real: Annotated[list[str], typer.Option("--real", metavar="DATA", help="Real rows, best such as were not released.")],
    synth: Annotated[list[str], typer.Option("--synth", metavar="DATA", help="Synthetic rows; repeat it to compare several.")],
    schema: SchemaFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write (.html or .json); never overwritten.")],
    train: Annotated[list[str] | None, typer.Option("--train", metavar="DATA", help="The real rows that were released.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="Column that learners are asked for; the label by default.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Release or model behind the rows: attacks its recipe and budget at small scale."),
    ] = None,
    lenet: Annotated[
        Path | None,
        typer.Option("--lenet", help="For pictures: weights of a LeNet (.npz), or a file to keep the one trained here."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of all that is drawn in measuring.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Compare synthetic rows with real ones, for the owner: PRIVATE.

    What it writes is made from real rows, and no budget covers it."""
    claim_page(output, ".html", ".json")
    need_report()
    from dpearl import evaluate as judges

    declared, paths = load_schema(schema), _names(synth)
    judges.check(declared, paths, target, seed)
    eye = _eye(lenet, judges.picture_column(declared))
    behind = None if model is None else _behind(model)
    _keep_fresh(real, train or [])
    rows, known = judges.read_coded(real, declared), judges.read_coded(train, declared) if train else None
    made = {name: judges.read_coded(path, declared) for name, path in paths.items()}
    with show.progress() as bars:
        found = judges.evaluate(rows, made, known, target, eye, seed, bars.steps)
        if behind is not None:
            found = _attacked(found, behind, bars)
    container.place_file(output, _written(found, output).encode(), _OWNER_ONLY)
    say.note(f"Written to {output}. It is PRIVATE: made from real rows, and no budget covers it.")
    say.next_step(f"look at {output}, and keep it where the real rows are kept")


def claim_page(output: Path, *forms: str) -> None:
    """Refuse an output in another form, or one that cannot be written."""
    if output.suffix.lower() not in forms:
        raise UsageError(f"{output}: this is written as {' or '.join(forms)}; end the name so")
    container.claim(output)


def need_report() -> None:
    """Say what to install before anything is done, or spent, that a report would lose."""
    try:
        for module in ("sklearn", "jinja2", "matplotlib"):
            import_module(module)
    except ImportError:
        raise UsageError("reports need scikit-learn, jinja2 and matplotlib; pip install 'dpearl[train,report]'") from None


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Synthetic tables by their file names, by their whole paths where these do not tell them apart."""
    from dpearl.utility import CEILING, FLOOR

    if len(set(paths)) < len(paths):
        raise UsageError("the same synthetic rows are given twice; leave one out")
    stems = [Path(path).stem or path for path in paths]
    clear = len({*stems, CEILING, FLOOR}) == len(stems) + 2
    return dict(zip(stems if clear else paths, paths, strict=True))


def _keep_fresh(real: Sequence[str], train: Sequence[str]) -> None:
    """Refuse real rows that are also those learnt from: nothing would be fresh."""
    known = {Path(source.where).resolve() for source in open_sources(train)} if train else set()
    for source in open_sources(real):
        if Path(source.where).resolve() in known:
            raise UsageError(f"{source.where}: is given as --real and as --train; give real rows that were not learnt from")


def _eye(lenet: Path | None, pictures: str | None) -> LeNet | Path | None:
    """Weights from elsewhere, or where to keep those that are trained here."""
    if pictures is None and lenet is not None:
        raise UsageError("--lenet looks at pictures, and the schema declares none; leave it out")
    if pictures is not None:
        need_torch()
    if lenet is None or lenet.suffix.lower() != ".npz":
        return lenet
    from dpearl.imagery import LeNet
    from dpearl.read.pictures import arrays

    return LeNet.of(arrays(lenet))


def _behind(file: Path) -> Release:
    need_torch()
    fit_kind(file)
    return load_release_inside(file)[0]


def _attacked(found: Evaluation, behind: Release, bars: show.Bars) -> Evaluation:
    """With a membership attack on the recipe and budget of a release, on its relation and with its way to the scale."""
    from dpearl.shadow import membership

    scale = None if "auxiliary" in behind.stages else Scale.PUBLIC
    block = behind.embedding.design.find(Characteristic)
    recipe = recipe_with(recipe_named(behind.recipe), behind.unit.relation, scale, block.frequencies if block else None)
    rows, bar = found.train or found.real, bars.steps("attacking", _TRIALS)
    return replace(found, membership=membership(rows, recipe, behind.budget, found.seed, _TRIALS, done=bar))


def _written(found: Evaluation, output: Path) -> str:
    if output.suffix.lower() == ".json":
        return json.dumps(found.to_dict(), indent=2, allow_nan=False)
    from dpearl.report.private import private_report

    return private_report(found)


@app.command(
    epilog=say.examples(
        "dpearl report model.dpearl -o report.html",
        "dpearl report model.dpearl --ledger ledger.jsonl -o report.html",
    )
)
def report(file: ModelFile, output: Output, ledger: LedgerShown = None, quiet: Quiet = False) -> None:
    """Write the public report of a model, made without real rows.

    What it promises, how noisy it is and how well it fits its release: for everybody."""
    if fit_kind(file) == RELEASE:
        raise FileError(f"{file}: is a release, not a model; `dpearl train {file} -o model.dpearl` makes one of it")
    claim_page(output, ".html")
    need_torch()
    need_report()
    from dpearl.synthesizer import load_synthesizer

    model = load_synthesizer(file)
    with show.progress() as bars:
        bars.working("reporting")
        report_to(model, output, charge_of(model.release, ledger))
    say.note(f"Written to {output}. It is public: nothing but the release and synthetic rows is in it.")
    say.next_step("dpearl evaluate --real DATA --synth DATA --schema SCHEMA -o evaluation.html, if you own the rows")


def report_to(model: Synthesizer, output: Path, charge: Mapping[str, str] | None) -> None:
    """Write the public report of a model."""
    from dpearl.report.public import public_report

    container.place_file(output, public_report(model, charge).encode())


def charge_of(release: Release, ledger: Path | None) -> dict[str, str] | None:
    """What a ledger says of a release, in words."""
    if ledger is None:
        return None
    charges = ledgers.read_ledger(ledger).charges
    found = [(number, charge) for number, charge in enumerate(charges, start=1) if charge.plan == release.plan]
    if not found:
        raise UsageError(f"{ledger}: has no charge for this release; give the ledger that it was charged to")
    number, charge = found[-1]
    return {
        "Charge": f"{number} of {len(charges)}",
        "Time": charge.time,
        "Protects": str(charge.unit),
        "μ": f"{charge.mu:.4f}",
        "Plan": charge.plan,
    }


@app.command(epilog=say.examples("dpearl audit", "dpearl audit --thorough -o audit.html", "dpearl audit --json"))
def audit(
    thorough: Annotated[bool, typer.Option("--thorough", help="A million releases in place of a hundred thousand.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to draw it in (.html or .png).")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Test the mechanism that is installed, statistically.

    It takes about a minute, ten with --thorough."""
    if output is not None:
        claim_page(output, ".html", ".png")
        need_report()
    runs = auditing.THOROUGH if thorough else auditing.RUNS
    with show.progress() as bars:
        found = auditing.audit(runs, bars.steps("auditing", runs))
    passed = all(finding.passed for finding in found)
    if as_json:
        show.as_json({"passed": passed, "findings": [finding.to_dict() for finding in found]})
    else:
        show.findings(found)
    if output is not None:
        _draw(found, output)
    if not passed:
        say.mistake("the audit FAILED: this installation does not keep its promise; do not release with it")
        raise typer.Exit(1)
    if not as_json:
        print("Passed: no test could tell neighbours apart better than the statement allows.")


def _draw(found: list[auditing.Finding], output: Path) -> None:
    from dpearl.report.audited import audit_page, audit_picture

    if output.suffix.lower() == ".html":
        container.place_file(output, audit_page(found).encode())
    else:
        audit_picture(found, output)
