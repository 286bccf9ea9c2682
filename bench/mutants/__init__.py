"""Deliberate bugs: each one change in one place that would void the guarantee, and the tests that must notice.

`python -m bench.mutants` makes each in a copy of the source, runs its tests there, and writes docs/results/mutants.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutant:
    """In `file` below src/dpearl, `old` becomes `new`; `breaks` says what is lost by it, `tests` which tests are asked."""

    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, source: str) -> str:
        """The source with the bug in it."""
        if source.count(self.old) != 1:
            raise ValueError(f"{self.file}: {self.old!r} occurs {source.count(self.old)} times")
        return source.replace(self.old, self.new)


def _mutant(breaks: str, file: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(breaks, file, old, new, tests)


SENSITIVITY = [
    _mutant(
        "A row of k frequencies is taken for one as long as a single frequency",
        "embeddings/characteristic.py",
        "return self.frequencies * UNIT**2",
        "return UNIT**2",
        "test_sensitivity.py::test_no_row_is_longer_than_stated",
    ),
    _mutant(
        "A replaced row may move frequencies of its class by 2√k; only √2·√k is covered",
        "embeddings/characteristic.py",
        "return (4 if same_class else 2) * self.norm2",
        "return 2 * self.norm2",
        "test_sensitivity.py::test_a_search_gets_close_to_the_stated_length_when_rows_are_replaced",
    ),
    _mutant(
        "Under replace-one the kinder of two worst cases is taken",
        "design.py",
        "return max(cases, key=",
        "return min(cases, key=",
        "test_sensitivity.py::test_no_neighbours_are_further_apart_than_stated",
    ),
    _mutant(
        "m rows of a person are taken to move sums √m as far",
        "design.py",
        "return unit.rows_per_person**2 * sum(",
        "return unit.rows_per_person * sum(",
        "test_privacy.py::test_m_rows_per_person_need_m_times_the_noise",
    ),
    _mutant(
        "A row in many marginals is taken for a row in one",
        "embeddings/marginals.py",
        "return sum(unit**2 for unit in self.counted)",
        "return UNIT**2",
        "test_marginals.py::test_the_reach_of_a_row_is_attained_by_single_columns_and_never_exceeded",
    ),
    _mutant(
        "Columns are counted alike and priced by the cube root of their cells",
        "embeddings/marginals.py",
        "return sums * self.units",
        "return sums * UNIT",
        "test_marginals.py::test_the_reach_of_a_row_is_attained_by_single_columns_and_never_exceeded",
    ),
    _mutant(
        "A replaced row leaves a cell and enters another; only one is counted",
        "embeddings/marginals.py",
        "return self.norm2 if relation is Relation.ADD_REMOVE else 2 * self.norm2",
        "return self.norm2",
        "test_marginals.py::test_the_reach_of_a_row_is_attained_by_single_columns_and_never_exceeded",
    ),
    _mutant(
        "A replaced row is taken to be orthogonal in columns and pairs",
        "embeddings/marginals.py",
        "return self.norm2 if relation is Relation.ADD_REMOVE else 4 * self.norm2",
        "return self.norm2 if relation is Relation.ADD_REMOVE else 2 * self.norm2",
        "test_marginals.py::test_two_rows_may_point_away_from_each_other",
    ),
    _mutant(
        "Rows that are too long count in full",
        "embeddings/marginals.py",
        "np.minimum(self.norm2 // length2, WHOLE**2)",
        "np.full_like(length2, WHOLE**2)",
        "test_marginals.py::test_no_row_is_longer_than_the_limit_and_long_ones_come_near_it",
    ),
    _mutant(
        "What a row adds inside its bins has no length",
        "embeddings/marginals.py",
        "self.sharp**2 * self.lengths2[self.owner] + self.finer**2 * self.within2",
        "self.sharp**2 * self.lengths2[self.owner]",
        "test_marginals.py::test_no_row_is_longer_than_the_limit_and_long_ones_come_near_it",
    ),
    _mutant(
        "What rows add to the values that they share has no length",
        "embeddings/marginals.py",
        "values2 = self.finest**2 * UNIT * self.several",
        "values2 = 0 * self.several",
        "test_marginals.py::test_sums_are_those_of_the_rows_vectors",
    ),
    _mutant(
        "What centring adds to the other bins of a pair is forgotten",
        "embeddings/marginals.py",
        "UNIT - 2 * SIDE * self.centres + (self.centres**2).sum()",
        "UNIT - 2 * SIDE * self.centres + self.centres**2",
        "test_marginals.py::test_sums_are_those_of_the_rows_vectors",
    ),
    _mutant(
        "What every row adds to tell how much it counts for has no length",
        "embeddings/marginals.py",
        "length2 = EACH**2 + alone2",
        "length2 = alone2",
        "test_marginals.py::test_sums_are_those_of_the_rows_vectors",
    ),
    _mutant(
        "The private count has no sensitivity",
        "embeddings/count.py",
        "            return self.norm2\n",
        "            return 0\n",
        "test_sensitivity.py::test_no_neighbours_are_further_apart_than_stated",
    ),
    _mutant(
        "Means and squares of modes count as if a row added its responsibility alone",
        "embeddings/mixtures.py",
        "return 3 * UNIT**2 * len(self.columns)",
        "return UNIT**2 * len(self.columns)",
        "test_questions.py::test_no_row_moves_the_statistics_of_modes_farther_than_stated",
    ),
    _mutant(
        "Cross products of waves count more than they cost",
        "embeddings/moments.py",
        "MEAN, SQUARE, CROSS = 3 * GRID // 2, 5, 7",
        "MEAN, SQUARE, CROSS = 3 * GRID // 2, 5, 8",
        "test_moments.py::test_no_picture_is_longer_than_stated",
    ),
    _mutant(
        "The paper's distance between rows may be twice as far as stated",
        "embeddings/spread.py",
        "return self.diameter2 * GRID**2",
        "return self.diameter2 * GRID**2 // 4",
        "test_sensitivity.py::test_a_search_gets_close_to_the_stated_length_for_pairwise_distances",
    ),
]

CLAMPS = [
    _mutant(
        "Bright pictures are not cut to the longest row",
        "embeddings/moments.py",
        "return clipped(self.view(np.ascontiguousarray(shaped.transpose(0, 3, 1, 2))))",
        "return self.view(np.ascontiguousarray(shaped.transpose(0, 3, 1, 2)))",
        "test_moments.py::test_no_picture_is_longer_than_stated",
    ),
    _mutant(
        "The length that pictures are cut by is rounded down",
        "embeddings/moments.py",
        "    lengths += lengths * lengths < squares\n",
        "",
        "test_moments.py::test_cut_rows_keep_their_direction_and_their_bound",
    ),
    _mutant(
        "A row far from a mode counts with all its distance",
        "embeddings/mixtures.py",
        "np.clip((points[:, None] - mean) / (CUT * spread), -1, 1)",
        "(points[:, None] - mean) / (CUT * spread)",
        "test_questions.py::test_no_row_moves_the_statistics_of_modes_farther_than_stated",
    ),
    _mutant(
        "Moments before the lower bound keep their place",
        "codec.py",
        "(np.clip(when, lower, upper) - lower + step // 2)",
        "(when - lower + step // 2)",
        "test_codec.py::test_moments_beyond_the_bounds_stop_there_whatever_their_unit",
    ),
    _mutant(
        "A person keeps one row more than declared",
        "persons.py",
        "return ballots[rank < most]",
        "return ballots[rank <= most]",
        "test_embed.py::test_nobody_keeps_more_rows_than_declared",
    ),
    _mutant(
        "Rows of a person are not bounded where texts are counted",
        "tally.py",
        "if ticket is not None and left[ticket] > 0:",
        "if ticket is not None:",
        "test_questions.py::test_a_persons_rows_are_bounded_before_texts_are_counted",
    ),
    _mutant(
        "Persons who may be in every shard are protected in one",
        "owner.py",
        "enforced = self.shards if self.schema.person is not None else 1",
        "enforced = 1",
        "test_owner.py::test_shards_multiply_the_rows_per_person_where_persons_are_named",
    ),
]

NOISE = [
    _mutant(
        "σ is cut off, not rounded up",
        "design.py",
        "math.ceil(multiplier * float(length)) + 1",
        "int(multiplier * float(length))",
        "test_privacy.py::test_integer_noise_is_never_below_what_was_calibrated",
    ),
    _mutant(
        "The variance is taken for the deviation",
        "noise.py",
        "(arb(sigma) * arb(2).sqrt() * point.erfinv()",
        "(arb(sigma).sqrt() * arb(2).sqrt() * point.erfinv()",
        "test_noise.py::test_a_word_that_decides_is_not_followed_by_another",
    ),
    _mutant(
        "√2 is forgotten between the error function and the Gaussian",
        "noise.py",
        "(arb(sigma) * arb(2).sqrt() * point.erfinv()",
        "(arb(sigma) * point.erfinv()",
        "test_noise.py::test_words_that_are_settled_together_are_the_draws_that_ball_arithmetic_decides",
    ),
    _mutant(
        "Noise comes from a generator that can be seeded",
        "noise.py",
        "np.frombuffer(os.urandom(_BITS // 8 * sums.size), _WORDS)",
        "np.frombuffer(np.random.bytes(_BITS // 8 * sums.size), _WORDS)",
        "test_noise.py::test_seeding_other_generators_changes_nothing_and_no_two_draws_are_equal",
    ),
    _mutant(
        "The same noise is drawn each time",
        "noise.py",
        "np.frombuffer(os.urandom(_BITS // 8 * sums.size), _WORDS)",
        "np.frombuffer(bytes(range(65, 73)) * sums.size, _WORDS)",
        "test_noise.py::test_seeding_other_generators_changes_nothing_and_no_two_draws_are_equal",
    ),
    _mutant(
        "One draw serves all coordinates of a block",
        "noise.py",
        "sums + draws.reshape(sums.shape)",
        "sums + draws[0]",
        "test_noise.py::test_draws_are_independent_in_time_and_between_coordinates",
    ),
    _mutant(
        "A draw that cannot be rounded yet is drawn anew, which biases it",
        "noise.py",
        "entropy, bits = (entropy << _BITS) | int.from_bytes(",
        "entropy, bits = int.from_bytes(",
        "test_noise.py::test_an_interval_across_a_rounding_edge_is_refined_by_appended_bits",
    ),
    _mutant(
        "A float's guess is taken for the draw, whatever its bounds say",
        "noise.py",
        "np.where(above, size, -size).astype(np.int64), certain",
        "np.where(above, size, -size).astype(np.int64), certain | True",
        "test_noise.py::test_words_that_are_settled_together_are_the_draws_that_ball_arithmetic_decides",
    ),
    _mutant(
        "The count is released without noise",
        "sanitize.py",
        "add_noise(embedding.sums[block.family], sigmas[block.family]) for block",
        'add_noise(embedding.sums[block.family], sigmas[block.family] if block.family != "count" else 0) for block',
        "test_audit.py::test_levels_and_frequencies_as_installed_pass",
    ),
    _mutant(
        "Cosines are rounded to the nearest integer, not cut towards zero",
        "embeddings/characteristic.py",
        "int((UNIT * arb.cos_pi_fmpq(fmpq(2 * i, _TABLE))).floor()",
        'int((UNIT * arb.cos_pi_fmpq(fmpq(2 * i, _TABLE)) + arb("0.5")).floor()',
        "test_characteristic.py::test_no_table_entry_leaves_the_unit_circle",
    ),
    _mutant(
        "Phases are summed in float32, so that they hang on the batch",
        "embeddings/characteristic.py",
        "np.matmul(coordinates, self.slopes, out=turns)",
        "turns[...] = coordinates.astype(np.float32) @ self.slopes.astype(np.float32)",
        "test_embed.py::test_phases_are_exact_far_beyond_single_precision",
    ),
]

LEVELS = [
    _mutant(
        "Texts pass by their exact counts",
        "sanitize.py",
        "noisy = add_noise(np.array(list(counts.values()), np.int64) * UNIT, sigma).tolist()",
        "noisy = (np.array(list(counts.values()), np.int64) * UNIT).tolist()",
        "test_audit.py::test_levels_and_frequencies_as_installed_pass",
    ),
    _mutant(
        "A text that one person alone carries passes",
        "sanitize.py",
        "if count >= threshold]",
        "if count >= 0]",
        "test_audit.py::test_levels_and_frequencies_as_installed_pass",
    ),
    _mutant(
        "The threshold forgets texts that are left out before noise",
        "embeddings/levels.py",
        "return replace(self, threshold=beyond + self.few(sigma) * UNIT)",
        "return replace(self, threshold=beyond)",
        "test_questions.py::test_the_threshold_keeps_what_one_person_brings_below_delta",
        "test_questions.py::test_epsilon_is_the_total_with_the_delta_of_levels_taken_off",
    ),
    _mutant(
        "The δ of levels comes on top of the stated δ",
        "owner.py",
        "covered = Budget(self.budget.epsilon, self.budget.delta - self.lost).mu",
        "covered = Budget(self.budget.epsilon, self.budget.delta).mu",
        "test_questions.py::test_epsilon_is_the_total_with_the_delta_of_levels_taken_off",
    ),
    _mutant(
        "Levels come out in the order in which rows hold them",
        "sanitize.py",
        "return sorted(kept, key=lambda level: (-level[1], level[0]))",
        "return kept",
        "test_questions.py::test_the_order_of_levels_tells_nothing_of_the_rows",
    ),
]

ACCOUNTING = [
    _mutant(
        "Composition takes the largest μ and forgets the others",
        "privacy.py",
        "total = math.hypot(*mus)",
        "total = max(mus, default=0.0)",
        "test_privacy.py::test_composition_of_nothing_costs_nothing_and_is_rounded_up",
        "test_ledger.py::test_charges_compose_exactly",
    ),
    _mutant(
        "Composition adds μ, not μ²",
        "privacy.py",
        "total = math.hypot(*mus)",
        "total = math.fsum(mus)",
        "test_ledger.py::test_charges_compose_exactly",
    ),
    _mutant(
        "Every stage uses the whole budget",
        "owner.py",
        "return {stage: math.sqrt(share) * self.whole for stage, share in self.stages.items()}",
        "return {stage: self.whole for stage, share in self.stages.items()}",
        "test_owner.py::test_the_offer_is_the_price",
    ),
    _mutant(
        "A release's ε forgets its first stage",
        "release.py",
        "return compose(self.mus.values())",
        'return self.mus["embedding"]',
        "test_owner.py::test_the_offer_is_the_price",
    ),
    _mutant(
        "μ is rounded up, so that δ is exceeded",
        "privacy.py",
        "return math.nextafter(high, 0.0)",
        "return math.nextafter(high, math.inf)",
        "test_privacy.py::test_mu_there_and_back_uses_the_budget_and_never_more",
    ),
    _mutant(
        "The second half of the analytic formula has the wrong sign",
        "privacy.py",
        "return bool(inside - growth * outside + ",
        "return bool(inside - growth * growth * outside + ",
        "test_privacy.py::test_the_known_figures_come_out",
    ),
    _mutant(
        "A release that cannot keep its ε is believed",
        "release.py",
        "honest = release.epsilon <= release.budget.epsilon",
        "honest = True",
        "test_release_file.py::test_less_noise_than_the_stated_epsilon_needs_is_refused",
    ),
    _mutant(
        "Releases of replaced rows are calibrated for rows that come and go",
        "owner.py",
        "return Unit(self.recipe.relation, self.schema.rows_per_person * enforced)",
        "return Unit(Relation.ADD_REMOVE, self.schema.rows_per_person * enforced)",
        "test_owner.py::test_the_number_of_rows_is_public_only_where_the_relation_makes_it_so",
        "test_privacy.py::test_an_offer_costs_its_budget_and_no_more",
    ),
]

LEDGER = [
    _mutant(
        "Noise is drawn before the ledger is charged",
        "owner.py",
        """        if not measured:
            charge(offer, ledger_path, output)
        measured[ask.stage] = _sanitized(private, offer.targets[ask.stage], offer.unit)
""",
        """        first = not measured
        measured[ask.stage] = _sanitized(private, offer.targets[ask.stage], offer.unit)
        if first:
            charge(offer, ledger_path, output)
""",
        "test_ledger.py::test_the_charge_is_on_disk_before_noise_is_drawn",
    ),
    _mutant(
        "A charge is recorded whatever is left",
        "ledger.py",
        "        _refuse(ledger, made, Path(path))\n",
        "",
        "test_ledger.py::test_the_budget_can_be_used_to_its_end_and_not_past_it",
        "test_ledger.py::test_a_refusal_leaves_the_file_byte_for_byte",
    ),
    _mutant(
        "Two processes may charge at once",
        "ledger.py",
        "            fcntl.flock(file, fcntl.LOCK_EX)\n",
        "",
        "test_ledger.py::test_processes_that_charge_at_once_lose_nothing_and_never_overspend",
    ),
    _mutant(
        "A charge is not safe on disk when the release goes out",
        "ledger.py",
        "        os.fsync(file.fileno())\n",
        "",
        "test_ledger.py::test_a_charge_that_cannot_be_synced_stops_the_release",
    ),
    _mutant(
        "Lines may be taken out of the ledger",
        "ledger.py",
        "if previous != head or digest",
        "if digest",
        "test_ledger.py::test_an_altered_ledger_is_refused",
    ),
    _mutant(
        "Sums that were made elsewhere are released without a charge",
        "owner.py",
        """    charge(offer, ledger_path, output)
    return _release(""",
        "    return _release(",
        "test_owner.py::test_a_used_up_budget_refuses_partial_sums_too",
    ),
]

LEAKS = [
    _mutant(
        "The exact number of rows is in every release",
        "owner.py",
        "rows = embedding.rows if _public_rows(offer) else None\n    answers",
        "rows = embedding.rows\n    answers",
        "test_owner.py::test_the_number_of_rows_is_public_only_where_the_relation_makes_it_so",
    ),
    _mutant(
        "Grids of the second stage follow exact counts",
        "owner.py",
        "ask = passes.send((measured[ask.stage], private.rows",
        "ask = passes.send((replace(measured[ask.stage], sums=getattr(private, 'sums', {})), private.rows",
        "test_owner.py::test_the_second_stage_follows_the_released_numbers_of_the_first_alone",
    ),
    _mutant(
        "An error quotes the row that it complains of",
        "read/tables.py",
        'raise DataError(f"{self.where}: {counts}; mend that row")',
        'raise DataError(f"{self.where}: {counts}; mend that row: {row.text}")',
        "test_bad_input.py::test_data_of_bad_structure_is_refused_before_anything_is_charged",
    ),
    _mutant(
        "Damaged files are read",
        "container.py",
        "_mark(_BLANK), 1)).hexdigest() != digest:",
        "_mark(_BLANK), 1)).hexdigest() == digest:\n        pass\n    elif version > VERSION:",
        "test_release_file.py::test_every_single_flipped_bit_is_refused",
        "test_release_file.py::test_a_flipped_bit_of_private_sums_is_refused",
    ),
    _mutant(
        "A design's digest does not cover its frequencies",
        "design.py",
        ".encode() + np.ascontiguousarray(array).tobytes())",
        ".encode())",
        "test_release_file.py::test_parts_that_do_not_fit_are_refused",
    ),
    _mutant(
        "Private sums are readable by everybody on the machine",
        "embed.py",
        "container.place_file(path, packed_partial(embedding), mode=0o600)",
        "container.place_file(path, packed_partial(embedding))",
        "test_release_file.py::test_partial_sums_are_marked_private_and_closed_to_others",
    ),
    _mutant(
        "A shard may be counted twice",
        "embed.py",
        "if len(set(held)) < len(held):",
        "if len(held) < 0:",
        "test_embed.py::test_partial_sums_survive_their_file_and_refuse_to_be_counted_twice",
    ),
]

SITES = [
    _mutant(
        "Sites count on the noise of dishonest ones",
        "sites.py",
        "return len(self.sites) - self.dishonest",
        "return len(self.sites)",
        "test_sites.py::test_the_noise_of_honest_sites_alone_is_the_calibrated_noise",
    ),
    _mutant(
        "A site's part of the noise is σ/h, not σ/√h",
        "sanitize.py",
        "1 + math.isqrt((sigma**2 - 1) // honest)",
        "1 + (sigma - 1) // honest",
        "test_sites.py::test_the_noise_of_honest_sites_alone_is_the_calibrated_noise",
    ),
    _mutant(
        "The gap between parts of noise and one Gaussian is not counted",
        "sanitize.py",
        "if not covered(budget, embedding.design.mu(sigmas, unit), gap):",
        "if not covered(budget, embedding.design.mu(sigmas, unit), arb(0)):",
        "test_sites.py::test_a_budget_that_does_not_cover_the_gap_is_refused",
    ),
    _mutant(
        "Shares hold the secret in the last of them",
        "sharing.py",
        "np.frombuffer(os.urandom(8 * secret.size), np.uint64)",
        "np.zeros(secret.size, np.uint64)",
        "test_sites.py::test_any_shares_but_one_are_uniform_whatever_the_secret",
    ),
]

MUTANTS: dict[str, list[Mutant]] = {
    "Sensitivity": SENSITIVITY,
    "Clamps and rows per person": CLAMPS,
    "Noise and arithmetic": NOISE,
    "Levels that nobody declared": LEVELS,
    "Accounting": ACCOUNTING,
    "Ledger": LEDGER,
    "Leaks and files": LEAKS,
    "Sites": SITES,
}
