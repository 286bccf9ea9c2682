"""What the page says around its tables."""

HEAD = """# The paper, reproduced

`make bench-paper` makes this page: every table and figure of the paper on the real data sets, which lie in the folder that
DPEARL_DATA names; `python -m bench.paper adult` makes one table (`images`, `adult`, `credit`, `resolution`, `scales`,
`power`, `complexity`), and `python -m bench.paper page` only tells what is finished. Runs are kept in `runs/` by their settings,
so that a stopped bench goes on where it was.

Figures are mean ± standard deviation over seeds at ε = 1, δ = 1e-5, unless said otherwise. A seed stands for frequencies, weights
and sampling; noise has none, and every seed has a release of its own. How many seeds stand behind a figure is told with it: five
are wanted, and where there are fewer, the bench has not come to them yet. CPU seconds are of training on one thread. Machine
class: x86_64, 2 cores, no GPU; shared.

Ours stands there twice, on tables three times, always under replace-one:

- **as printed**: the paper's privacy. Half of the budget for the mean pairwise distance, half for the characteristic functions,
  and the noise that its Rényi accounting asks of two equal releases: {multiplier:.2f} times the sensitivity each. Exactly
  accounted, that costs ε = {exact:.3f}.
- **ours**: the `paper` recipe of this package. 5% for the distance, exact composition, ε = 1: 3.83 times the sensitivity on the
  characteristic functions.
- **ours, octaves**, on tables: the same, but of every frequency two numbers, on average, are raised by up to six octaves
  (`Recipe.octaves`, as in our own recipe), so that their shapes are seen and not their means alone, and by no more octaves than
  lead to 12 radians over a number's range (`bench.paper.method.Reaching`). Both were chosen on generated tables (below).

DP-MERF spends all of its budget on the embedding. DPGAN and DPCGAN stand under add/remove, as Opacus accounts them, which favours
them. Independent columns, the floor, are one-way histograms under replace-one. All get the same rows, on the same grid, and all
but independent columns the same generator; the same judges look at all.
"""

BUDGETS = """60,000 synthetic images against the 10,000 test images, features of the authors' LeNet. Frequencies and iterations as
printed: 1,000 and 6,000 (MNIST), 3,000 and 3,000 (Fashion-MNIST). The DP-GANs get 800 steps of about 1,200 real images each, as
many CPU seconds as ours, roughly; their constants were found within training rows, and more steps buy little under this noise."""

ADULT = """11,077 training and 1,231 test rows, 11,000 synthetic ones, hard predictions. k = 1,000, 8,000 iterations, batches of
1,100, as printed. DPCGAN gets 400 steps of about 1,000 real rows; within training rows more of them made it no better, since its
noise grows with them."""

CREDIT = """ROC and PRC are averages over the ten classifiers. Range: mean |p - q| of 1,000 queries on three columns, ranges
uniform. Marginal: mean L1 distance of all pairs of columns, numbers in 20 bins. MMD: unbiased, squared, Gaussian kernel at the
median distance, 2,000 rows. The paper prints neither bins nor kernel, so these three compare methods here, not us with it.

Credit: the paper does not say how it balanced 284,807 rows of which 492 are frauds. Its DP-MERF has a PRC of .26, which is what
guessing gives at 492 frauds among 1,913 rows, DP-MERF's own preparation; so every fraud is kept, and one in two hundred of the
other rows, by a public coin that hangs on the row's place alone. What is protected is a row of that balanced table (1,933 rows;
their number and the 492 are public). Each seed holds out another tenth to test on. Bounds are public: [-10, 10] for each
component, two days, amounts up to 5,000. 1,900 synthetic rows."""

POWER = """Re-weighting raises the power in every dimension, which is the paper's point: the weights of frequencies that are there
already are worth choosing. That the optimized set is the best of all three, as the paper has it, is not so here: twenty
frequencies that all see the difference are better than one."""

REACHED = """With the printed privacy every figure is reached; with ours, too, but for a PRC on Adult that misses by less than its
spread over seeds. DP-MERF is beaten on images as they are, and on tables once the scale of frequencies, which the paper leaves
open, is varied; at 1/D̄ alone it is not, and why is told below."""

SCALES = """## Which frequencies see a table

The paper draws all frequencies at one scale. Here is what others see of rows that are made up (`bench/generated.py`; ε = 1,
replace-one, 2,000 iterations; `python -m bench.paper scales`), by the distances of the additional table. `within reach` raises a
number by up to six octaves, too, but from 1/D̄ no further than 12 radians over its range.
"""

MANY = """Numbers and categories, 15 columns, 11,000 rows:
"""

FEW = """Numbers alone, narrow within their bounds as Credit's are, and a label: 31 columns, 1,740 rows. D̄ is small here, so that
1/D̄ turns a number by one or two radians already, and noisy, since rows are few: six octaves above it is mostly noise to see.
It is the third small table that was tried, after Credit's first figures were known: on one of mixed kinds six octaves did no
harm, on one within ±10 half of the runs broke down. The reach of 12 was chosen on this one by one or two seeds, among 6, 12 and
25, before Credit and Adult were run with it. Three seeds say the same of range queries and marginals; boosting and MMD differ by
less than their spread, but for the MMD of six octaves without a reach.
"""

READINGS = """## How the paper was read

- **Frequencies.** "1,000 frequencies" is 1,000 points t, each with its cosine and sine, as the sensitivity 2√k/n says. The
  authors' code has 500 cosines and 500 sines.
- **Scaling.** The text scales numbers to [0, 1], but a tanh ends in [-1, 1]. Here the embedding sees [0, 1] between public
  bounds (half of 1 + tanh), as the sensitivity of the pairwise distance needs; classifiers see [-1, 1], as in the authors'
  code.
- **Schedule.** The paper prints Adam's 0.01 and no schedule; here it falls linearly to zero, chosen on held-out frequencies of
  an MNIST release.
- **Hard predictions.** ROC and PRC are those of `predict`, not of scores: that gives the paper's row for real data.
- **FID network.** The authors' LeNet, trained on MNIST, for both sets. FID over 10 bootstrap resamples, KID over 100 subsets of
  1,000.
- **Pairwise distance.** Its diameter is √(numbers + 2 · categories) for one-hot levels, not √d; it is taken over disjoint
  pairs, which has the printed sensitivity in O(n).
- **Critic.** Weights are self-normalised in log space, one step for every 5 (images) or 10 (tables) of the generator, as in the
  authors' code. Ours maximises what the known noise cannot explain, which the paper's does not.
- **DP-MERF** is the paper's: frequencies from N(0, I) on rows scaled to [0, 1], our generator, no critic. Its own kernels for
  tables are not used.
- **Resolution.** Frequencies of scale 1/D̄ see no detail below some tenths of a number's range, so what a generator does there
  is an accident of training, which trees may take for a difference between classes. The paper leaves resolution open. Here
  numbers have public steps of about a hundredth of their range (1,000 for a capital gain, 10,000 for fnlwgt), for all methods
  and for real rows. How much that does differs from release to release; within training rows (10,000 released, 1,077 to test
  on, 2,000 iterations):
"""

MISSES = """## Where this falls short, and why

- **Numbers keep their means, not their shapes.** At frequencies of scale 1/D̄ a number's phase hardly turns over its whole
  range where there are many categories, so its mean is all that the release tells; the generator fills in tails at both bounds.
  That is why independent columns, the floor, are nearer in range queries and marginals, where a good histogram is all it takes,
  though a classifier learns nothing from them. The paper's own marginals on Adult are as far off. Octaves mend most of it: range
  queries come out several times nearer, ahead of DP-MERF and of independent columns.
- **DP-MERF on tables** is as good as ours for learners, where the paper's is much worse: on Adult its ROC and PRC are a little
  above those of 1/D̄, by about their spread, and level with those of octaves; on Credit they are level with 1/D̄ and below
  octaves. Octaves without a reach, which on Adult is about one octave more, had .752 ± .009 and .639 ± .009 there. DP-MERF's
  frequencies on Adult are some three times higher than those at the mean pairwise distance, so that it sees more of numbers, and
  it pays nothing for their scale. On images, of many more dimensions, the same frequencies see nothing. What the paper prints of
  DP-MERF's learners (.64 / .54 and .66 / .26) is below ours everywhere: what it gains here is our generator and exact accounting.
- **Credit.** A held-out tenth has 194 rows with about 49 frauds, and at 1,740 training rows the noise on every released number
  is 0.14, a fifth of the most that the larger class could show: releases of one method lie far apart, and one seed decides
  nothing (seed 0 alone missed the target that the mean of five reaches). D̄ has noise of 0.15 there, which is much for numbers
  that lie so close: octaves without a reach multiplied it, and were behind DP-MERF in ROC, PRC and MMD (.862, .746, .0135).
  Numbers of synthetic rows are broader than real ones: marginals of 1/D̄ are further off than the paper's.
- **MMD.** The paper's 1e-7 and 1e-8 are not reached, and with this kernel could not be told from zero: two samples of 2,000
  real rows differ by some 1e-4 by chance alone.
- **Critic.** Its gain on images is within the spread over seeds. On Adult noise explains all that it sees, and it leaves the
  weights equal; on made-up rows with octaves it does neither good nor harm.
- **The DP-GANs are stronger here than in the paper** on MNIST, and DPCGAN learns something of Adult, where the paper's guesses;
  the paper does not print their constants. DP-MERF gives no pictures, as in the paper; how far it is from any differs from
  there.
- **Fig. 2** has another order than the paper's, as told there.
- **Seeds.** Where fewer than five stand behind a figure, its spread is not known well, or not at all.
"""
