"""docs/results/peers.md, written from the runs that are finished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from bench.cache import FOLDER, Run
from bench.peers.figure import draw
from bench.peers.lines import cost_lines, picture_lines, table_lines
from bench.peers.methods import AUTO
from bench.peers.plan import PICTURE_EPSILONS, PICTURES
from bench.peers.targets import target_lines
from bench.peers.work import LIMIT, WIDE_LIMIT

OUT = FOLDER.parent

HEAD = f"""# dpearl beside its peers

`make bench-peers` (or `python -m bench.peers [TABLE] [METHOD]`; `python -m bench.peers report` writes this page from what is
finished). ε = 1, δ = 1e-5, add/remove, as many synthetic rows as training rows, mean ± standard deviation over seeds; every
line says how many. Each method runs in a process of its own on one thread. CPU s: user and system time of fitting and
sampling, children included; peak MB: the most memory that the process ever held, its libraries included. Machine class:
x86_64, 2 cores, no GPU, shared with other work; there were several of them over the months, the slowest of which takes about
2.5 times as long as the fastest.

A peer that gives no rows within {LIMIT:,} CPU s ({WIDE_LIMIT} on the wide table) gets a line that says so, and is not tried
again with other seeds.

## Who is compared, and how
- **dpearl auto**, the default recipe, and **dpearl paper**, the paper's, which holds under replace-one and spends a
  part of ε on the scale of its frequencies. Ours are told the schema: bounds, levels, steps, spikes, logarithms.
- **independent columns**: noisy one-way histograms and nothing else, the floor (`bench/baselines/independent.py`).
- **real rows**: the training rows in the place of synthetic ones, the ceiling.
- **dpmm 0.1.9** (MST, PrivBayes, AIM) as its README uses it: declared bounds and categories, PrivTree bins. Its
  `proc_epsilon` comes on top of its `epsilon`; here both together are ε, split 1 : 10 as its defaults are. Categories are
  declared in the pandas type too: else levels that no row carries come back as blanks.
- **smartnoise-synth 1.0.8** (MST, AIM, DP-CTGAN): transformers fitted to declared levels and bounds, not to rows; whole
  numbers in a range below 150 are levels, as the package itself would have them, others fall into 20 bins, whose midpoints
  come back. Its sampler is mbi 1.1.0, the only version on PyPI that it runs with, which orders the rows of a group by what
  was drawn before: columns that share a parent come out correlated where they are not. That is what a user gets. DP-CTGAN
  asks before an epoch whether ε is spent, so that the last one goes beyond it, and draws its conditions by the exact
  frequencies of levels; it is shown as it is.
- Peers are installed from PyPI with all versions pinned (`bench/peers/requirements/`), each into an environment of its own
  under `.peers/`: dpmm needs numpy 1.26, and DP-CTGAN a package (packaging) that smartnoise-synth does not name. Rows they made
  are kept there too.

Judges (`bench/peers/judge.py`): ten classifiers (on full Adult from 10,000 rows) and histogram boosting are trained on
synthetic rows and tested on real test rows; ROC / PRC of the ten are of **hard predictions** as in the paper; TV is the mean
total variation of 1-, 2- and 3-way marginals against the training rows (of at most 500 sets of columns), numbers at 20 bins of
equal width without any for spikes; KS the mean over numbers; range queries the mean error of 1,000 queries on three columns
between quantiles; C2ST the AUC of a classifier that tells real rows from synthetic ones.
"""

SECTIONS = {
    "adult": """## Adult, all rows
The original split: 32,561 training rows, 16,281 test rows, 15 columns, the schema that the package carries.
""",
    "balanced": """## Adult, balanced
The paper's protocol: 11,077 training rows, 1,231 test rows.
""",
    "credit": """## Credit
The ULB credit-card data: all 492 frauds and, by public coins, one in two hundred honest payments, 1,933 rows, which is how the
paper's table can be read; each seed holds out another tenth for the test. Declared bounds: two days, ±10 for each of the 28
components (what lies beyond counts as the bound), amounts to 30,000. Tenths differ, and lines of fewer seeds know the first ones
alone.
""",
    "wide": """## A wide table
Generated (`bench/generated.py`): 101 columns that hang on six hidden traits, 16,000 training rows, 8,000 test rows. A limit of
600 CPU s; asked of ours: at most 120 CPU s and 2 GB.
""",
    "levels": """## A column of 10,000 levels
Generated: 16 columns, 16,000 training rows, one column of 10,000 levels.
""",
}

PUBLISHED = """Published figures of others at ε = 1 / ε = 10 (percent of test pictures that a classifier gets right which was
trained on 60,000 synthetic ones, no public data; DPImageBench, on GPUs, most for hours): MNIST DP-FETA 95.6 / 98.1,
DP-Kernel 94.0 / 93.6, DPDM 89.2 / 97.7, DP-MERF 80.3 / 81.3; Fashion-MNIST DP-FETA 81.7 / 87.3, DPDM 76.4 / 85.6,
DP-Kernel 68.4 / 70.0, DP-MERF 62.2 / 62.2.
"""


CHOSEN = """Asked for at ε = 1: FID at most 0.5 on both, accuracy 95.6% on MNIST and 81.7% on Fashion-MNIST. Constants were
chosen by trials that were judged by training rows, of MNIST for the embedding, of both sets for the generator; no test row
was used. A CNN's accuracy hangs on its own seed, too, which here is the seed of the run. It has the average of its weights
over the last three tenths of its steps, which real training pictures asked for (`imagery.LATE`); the second figure is that of
a CNN with the weights of its last step, the only reading that this page gave before.
"""


def write(done: Sequence[Run]) -> None:
    """The page, its figure and its grids."""
    OUT.mkdir(parents=True, exist_ok=True)
    draw(done, OUT / "peers.png")
    (OUT / "peers.md").write_text("\n".join([HEAD, *_targets(done), *_tables(done), *_curve(), *_pictures(done), *_costs(done)]))


def _targets(done: Sequence[Run]) -> Iterator[str]:
    yield f"## What was asked of {AUTO}, at ε = 1\n"
    yield from (*target_lines(done), "")


def _tables(done: Sequence[Run]) -> Iterator[str]:
    for name, text in SECTIONS.items():
        yield from (text, *(list(table_lines(done, name)) or ["Not run yet."]), "")


def _curve() -> Iterator[str]:
    yield "## Against ε\n\nOn full Adult, as far as runs are finished:\n"
    yield "![Each measure against ε, a line to a method](peers.png)\n"


def _pictures(done: Sequence[Run]) -> Iterator[str]:
    yield "## Pictures\n\n60,000 synthetic pictures; FID and KID by the paper's LeNet against the 10,000 test pictures; a CNN"
    yield f"trained on synthetic pictures alone.\n\n{CHOSEN}\n{PUBLISHED}"
    for name in PICTURES:
        yield from (f"{AUTO} on {name}:\n", *(list(picture_lines(done, name, PICTURE_EPSILONS, AUTO)) or ["Not run yet."]), "")
        yield from grids(name)


def grids(name: str) -> Iterator[str]:
    """Grids of seed 0 side by side, ε growing; a page without them where none is finished."""
    known = [epsilon for epsilon in sorted(PICTURE_EPSILONS) if grid_place(name, epsilon).exists()]
    if known:
        files = [Image.open(grid_place(name, epsilon)) for epsilon in known]
        Image.fromarray(np.concatenate([np.pad(np.asarray(file), 5, constant_values=128) for file in files], axis=1)).save(
            OUT / f"peers-{name}.png"
        )
        yield f"![Synthetic pictures at ε = {', '.join(f'{own:g}' for own in known)}](peers-{name}.png)\n"


def grid_place(name: str, epsilon: float) -> Path:
    return FOLDER / f"peers-{name}-{epsilon:g}.png"


def _costs(done: Sequence[Run]) -> Iterator[str]:
    yield f"## What training costs\n\n{AUTO} on generated tables, CPU s of training alone, one seed. Asked for: the same whatever"
    yield "the number of rows, and at most four times as much for twice as many columns.\n"
    yield from list(cost_lines(done)) or ["Not run yet."]
    yield ""
