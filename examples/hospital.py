# %% [markdown]
# # A hospital table, from stays to synthetic stays
#
# A hospital wants to give researchers a table of stays: who came when, to which ward, for how long, with which
# laboratory values. The rows are patients, so the table itself cannot leave the house. What can leave is a table of
# invented stays that has the same shape, and a proof of how little any one patient has to do with it.
#
# The rows below are generated, so that you can run this anywhere. They have the usual troubles: dates, cells that are
# missing, and patients who come back.

# %%
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpearl
from dpearl import plot

folder = Path(time.strftime("hospital-%Y%m%d-%H%M%S"))  # a new one for each run: dpearl never overwrites a file
folder.mkdir()

# %% [markdown]
# ## The private rows
#
# About 20,000 stays. Winter is busier, nights are quieter, old people stay longer, CRP is mostly measured where an
# infection is suspected, and about one patient in four comes back.

# %%
WARDS = {"medicine": 0.4, "surgery": 0.3, "cardiology": 0.2, "children": 0.1}
DIAGNOSES = {
    "medicine": {"infection": 0.45, "lung": 0.3, "kidney": 0.15, "heart": 0.1},
    "surgery": {"fracture": 0.45, "abdomen": 0.4, "infection": 0.15},
    "cardiology": {"heart": 0.85, "lung": 0.15},
    "children": {"infection": 0.5, "fracture": 0.3, "lung": 0.2},
}


def stays(patients: int, seed: int) -> pd.DataFrame:
    """Stays of so many invented patients."""
    chance = np.random.default_rng(seed)
    ward = chance.choice(list(WARDS), patients, p=list(WARDS.values()))
    age = np.where(ward == "children", chance.integers(0, 16, patients), chance.normal(62, 17, patients).clip(16, 104).round())
    sex = chance.choice(["female", "male"], patients)
    again = np.repeat(np.arange(patients), chance.geometric(0.75, patients))  # one line for each stay
    ward, age, sex = ward[again], age[again].astype(int), sex[again]
    diagnosis = np.array([chance.choice(list(DIAGNOSES[own]), p=list(DIAGNOSES[own].values())) for own in ward])
    winter = 1 + 0.5 * np.cos(np.arange(366) * 2 * np.pi / 366)
    day = chance.choice(366, len(again), p=winter / winter.sum())
    hour = chance.choice(24, len(again), p=np.r_[np.ones(7), np.full(11, 4), np.full(6, 2)] / 63)
    admitted = pd.Timestamp("2024-01-01") + pd.to_timedelta(day * 24 + hour, unit="h")
    hours = chance.lognormal(np.log(30 + age), 0.7).clip(2, 2000).round()
    crp = chance.lognormal(np.where(diagnosis == "infection", 4.2, 1.8), 0.8).clip(0.3, 500).round(1)
    haemoglobin = chance.normal(np.where(sex == "male", 14.6, 13.2) - 0.02 * (age - 40).clip(0), 1.3).clip(4, 20).round(1)
    return pd.DataFrame(
        {
            "patient": again,
            "admitted": admitted,
            "discharged": admitted + pd.to_timedelta(hours, unit="h"),
            "ward": ward,
            "diagnosis": diagnosis,
            "age": age,
            "sex": sex,
            "crp": np.where(chance.random(len(again)) < np.where(diagnosis == "infection", 0.05, 0.5), np.nan, crp),
            "haemoglobin": np.where(chance.random(len(again)) < 0.12, np.nan, haemoglobin),
        }
    )


private = stays(15_000, seed=1)
private.head()

# %% [markdown]
# ## One change before anything else
#
# A synthetic row follows what was measured of single columns and of pairs of columns. No rule between two columns is
# guaranteed: an invented patient could leave before arriving. So we do not ask for it. We keep when a stay began and
# how many hours it lasted; the end follows from both, and is then always after the beginning. Such a change looks at
# one row at a time, so it costs no privacy.

# %%
rows = private.drop(columns="discharged")
rows["hours"] = (private["discharged"] - private["admitted"]).dt.total_seconds().astype(int) // 3600

# %% [markdown]
# ## What we know without looking
#
# The schema says what may stand in each column. It is published as it is, so it must come from general knowledge and
# never from the rows: bounds that a doctor would name, wards that are on the hospital's web page. What lies outside
# is moved to the bound.
#
# `person` names the column that tells patients apart. It is never measured. `rows_per_person = 3` says what is
# protected: up to three stays of a patient count (of a patient with more, three are kept), and the noise is three
# times as large as it would be for one. Without these two lines every *stay* would be protected, and a patient with
# ten stays ten times less.

# %%
SCHEMA = """
person = "patient"
rows_per_person = 3

[columns.admitted]
kind = "datetime"
lower = 2024-01-01T00:00:00
upper = 2024-12-31T23:00:00
step = "1h"

[columns.hours]
kind = "number"
lower = 1
upper = 2000
step = 1
log = true                  # hours and weeks on one scale

[columns.ward]
kind = "category"
levels = ["medicine", "surgery", "cardiology", "children"]

[columns.diagnosis]
kind = "category"
levels = ["infection", "lung", "kidney", "heart", "fracture", "abdomen"]

[columns.age]
kind = "number"
lower = 0
upper = 105
step = 1

[columns.sex]
kind = "category"
levels = ["female", "male"]

[columns.crp]
kind = "number"
lower = 0.3
upper = 500
step = 0.1
log = true
missing = true              # not everybody is measured, and that too is worth keeping

[columns.haemoglobin]
kind = "number"
lower = 4
upper = 20
step = 0.1
missing = true
"""
(folder / "schema.toml").write_text(SCHEMA)
dpearl.load_schema(folder / "schema.toml")

# %% [markdown]
# ## Fit once, sample for ever
#
# `fit` is the only step that sees rows. It counts, adds noise to the counts and forgets the rows; everything after
# works from the noisy counts. `epsilon` says how much one patient may matter: 1 is a cautious, customary choice. The
# ledger writes down that this budget is spent, and refuses a second fit on the same patients.

# %%
pearl = dpearl.PEARL(folder / "schema.toml", epsilon=1.0, ledger=folder / "ledger.jsonl").fit(rows)
print(pearl.statement_)

# %%
synthetic = pearl.sample(len(rows), seed=1)  # a pandas table, because a pandas table was fitted
synthetic["discharged"] = synthetic["admitted"] + pd.to_timedelta(synthetic["hours"], unit="h")
synthetic.to_csv(folder / "synthetic.csv", index=False)
synthetic.head()

# %% [markdown]
# ## How good is it?
#
# For everybody: what was released of each column, with the error that the noise may make, beside the synthetic rows.
# This figure sees no private row, so it may be published.

# %%
figure = plot.histograms(pearl.model_, title="What was released, and what came of it")
plot.save(figure, folder / "public.png")
figure

# %% [markdown]
# For the owner alone: the real stays beside the synthetic ones. Of real patients this figure would be PRIVATE; here
# they are invented. Do the two columns that belong together still belong together?

# %%
figure = plot.pairs(pearl.schema_, "diagnosis", "ward", {"real": rows, "synthetic": synthetic}, title="PRIVATE")
plot.save(figure, folder / "PRIVATE.png")
figure


# %%
def questions(table: pd.DataFrame) -> dict[str, float]:
    """Some things that a researcher might ask."""
    infection = table["diagnosis"] == "infection"
    return {
        "median hours, below 40 years": table["hours"][table["age"] < 40].median(),
        "median hours, above 70 years": table["hours"][table["age"] > 70].median(),
        "share of stays that begin in December or January": table["admitted"].dt.month.isin([12, 1]).mean(),
        "CRP not measured, infection": table["crp"][infection].isna().mean(),
        "CRP not measured, others": table["crp"][~infection].isna().mean(),
        "median CRP, infection": table["crp"][infection].median(),
        "median CRP, others": table["crp"][~infection].median(),
    }


answers = pd.DataFrame({"real": questions(rows), "synthetic": questions(synthetic)}).round(2)
print(answers)

# %% [markdown]
# Relations come out somewhat weaker than they are: that old people stay longer is told by counts of two columns at
# once, which are smaller than those of one, while the noise is the same for all. Rare things drown in it first. Some
# synthetic stays even have what no real one has, such as a kidney patient on the children's ward: a few in a
# thousand, where noise could not tell them from none.
#
# And the stays are not linked to each other: the patient column was never measured, so there is nobody who comes
# back.

# %%
print("Stays that end before they begin:", (synthetic["discharged"] <= synthetic["admitted"]).sum())
print("Written:", *sorted(path.name for path in folder.iterdir()))
