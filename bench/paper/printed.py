"""What the paper prints, figure by figure: mean and ± as they stand there."""

from __future__ import annotations

from bench.paper.method import Method

IMAGES = {
    ("mnist", Method.DPGAN): ("22.1 ± 1.01", "573 ± 41.2"),
    ("mnist", Method.DPCGAN): ("17.3 ± 2.90", "286 ± 69.5"),
    ("mnist", Method.MERF): ("49.9 ± 0.22", "148 ± 46.2"),
    ("mnist", Method.PRINTED_PLAIN): ("3.79 ± 0.06", "77.8 ± 9.88"),
    ("mnist", Method.PRINTED): ("3.52 ± 0.06", "70.5 ± 10.3"),
    ("fashion", Method.DPGAN): ("16.6 ± 1.34", "535 ± 61.5"),
    ("fashion", Method.DPCGAN): ("14.61 ± 1.75", "425 ± 64.2"),
    ("fashion", Method.MERF): ("37.0 ± 0.15", "1220 ± 36.1"),
    ("fashion", Method.PRINTED_PLAIN): ("1.99 ± 0.04", "24.0 ± 6.90"),
    ("fashion", Method.PRINTED): ("1.92 ± 0.04", "26.9 ± 6.80"),
}
"""Table 1: FID, and KID times 1,000."""

AVERAGE = "average"

ROC = {
    "LR": {Method.REAL: ".788", Method.MERF: ".661 ± .059", Method.DPCGAN: ".501 ± .001", Method.PRINTED: ".752 ± .009"},
    "Gaussian NB": {Method.REAL: ".629", Method.MERF: ".587 ± .079", Method.DPCGAN: ".499 ± .005", Method.PRINTED: ".661 ± .036"},
    "Bernoulli NB": {
        Method.REAL: ".769",
        Method.MERF: ".588 ± .056",
        Method.DPCGAN: ".482 ± .159",
        Method.PRINTED: ".763 ± .008",
    },
    "Linear SVM": {Method.REAL: ".781", Method.MERF: ".568 ± .091", Method.DPCGAN: ".501 ± .001", Method.PRINTED: ".752 ± .009"},
    "Decision Tree": {
        Method.REAL: ".759",
        Method.MERF: ".696 ± .081",
        Method.DPCGAN: ".599 ± .078",
        Method.PRINTED: ".675 ± .030",
    },
    "LDA": {Method.REAL: ".782", Method.MERF: ".634 ± .060", Method.DPCGAN: ".501 ± .002", Method.PRINTED: ".755 ± .005"},
    "Adaboost": {Method.REAL: ".789", Method.MERF: ".642 ± .097", Method.DPCGAN: ".523 ± .065", Method.PRINTED: ".709 ± .031"},
    "Bagging": {Method.REAL: ".772", Method.MERF: ".659 ± .060", Method.DPCGAN: ".546 ± .082", Method.PRINTED: ".687 ± .041"},
    "GBM": {Method.REAL: ".800", Method.MERF: ".706 ± .069", Method.DPCGAN: ".544 ± .101", Method.PRINTED: ".709 ± .029"},
    "MLP": {Method.REAL: ".776", Method.MERF: ".667 ± .088", Method.DPCGAN: ".503 ± .004", Method.PRINTED: ".744 ± .012"},
    AVERAGE: {Method.REAL: ".765", Method.MERF: ".641 ± .044", Method.PRINTED: ".721 ± .035"},
}
"""Table 2 and its DPCGAN companion: ROC on Adult."""

PRC = {
    "LR": {Method.REAL: ".681", Method.MERF: ".542 ± .041", Method.DPCGAN: ".484 ± .001", Method.PRINTED: ".641 ± .015"},
    "Gaussian NB": {Method.REAL: ".511", Method.MERF: ".491 ± .060", Method.DPCGAN: ".483 ± .003", Method.PRINTED: ".537 ± .028"},
    "Bernoulli NB": {
        Method.REAL: ".651",
        Method.MERF: ".488 ± .040",
        Method.DPCGAN: ".498 ± .091",
        Method.PRINTED: ".644 ± .009",
    },
    "Linear SVM": {Method.REAL: ".671", Method.MERF: ".489 ± .067", Method.DPCGAN: ".484 ± .001", Method.PRINTED: ".640 ± .015"},
    "Decision Tree": {
        Method.REAL: ".646",
        Method.MERF: ".576 ± .063",
        Method.DPCGAN: ".546 ± .056",
        Method.PRINTED: ".582 ± .028",
    },
    "LDA": {Method.REAL: ".670", Method.MERF: ".541 ± .048", Method.DPCGAN: ".484 ± .002", Method.PRINTED: ".640 ± .007"},
    "Adaboost": {Method.REAL: ".682", Method.MERF: ".546 ± .071", Method.DPCGAN: ".500 ± .036", Method.PRINTED: ".628 ± .024"},
    "Bagging": {Method.REAL: ".667", Method.MERF: ".538 ± .042", Method.DPCGAN: ".516 ± .058", Method.PRINTED: ".601 ± .039"},
    "GBM": {Method.REAL: ".695", Method.MERF: ".586 ± .047", Method.DPCGAN: ".518 ± .066", Method.PRINTED: ".635 ± .025"},
    "MLP": {Method.REAL: ".660", Method.MERF: ".558 ± .063", Method.DPCGAN: ".486 ± .004", Method.PRINTED: ".635 ± .015"},
    AVERAGE: {Method.REAL: ".654", Method.MERF: ".536 ± .034", Method.PRINTED: ".618 ± .033"},
}
"""The same, PRC."""

TASKS = {
    ("adult", Method.MERF): (".64", ".54", ".10", "1.37", "2e-3"),
    ("adult", Method.PRINTED): (".72", ".62", ".06", ".71", "1e-7"),
    ("credit", Method.MERF): (".66", ".26", ".049", ".95", "2e-5"),
    ("credit", Method.PRINTED): (".84", ".68", ".026", ".72", "1e-8"),
}
"""The additional table: ROC, PRC, range queries, marginal release, MMD."""
