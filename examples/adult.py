# %% [markdown]
# # Adult, from a CSV file to a report, on the command line
#
# The Adult data are answers to the American census of 1994: age, education, work, and whether somebody earned more
# than 50,000 dollars. They have long been public, so everything may be shown here. Pretend that they are not.
#
# Nothing below needs Python: each line after `$` is what you would type in a shell.

# %%
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from dpearl import datasets

folder = Path(time.strftime("adult-%Y%m%d-%H%M%S"))  # a new one for each run: dpearl never overwrites a file
folder.mkdir()


def shell(command: str, lines: int = 100) -> None:
    """Run a command in that folder, and show the first lines of what it says."""
    done = subprocess.run([sys.executable, "-m", *shlex.split(command)], cwd=folder, capture_output=True, text=True)
    said = (done.stdout + done.stderr).splitlines()
    print(f"$ {command}", *said[:lines], *(["..."] if len(said) > lines else []), sep="\n")
    done.check_returncode()


datasets.adult().to_pandas().sample(8_000, random_state=0).to_csv(folder / "people.csv", index=False)

# %% [markdown]
# ## The schema: what is known without looking
#
# A draft takes names and kinds of columns from the file. Bounds and levels are left blank on purpose: they are
# published as they stand, so you fill them in from public knowledge, here from the description of the census. Columns
# that nobody needs are left out: they are not read, and the others come out sharper.

# %%
shell("dpearl schema people.csv", lines=24)

# %%
SCHEMA = """
label = "income"            # what others will want to predict: measured with each pair of the other columns

[columns.age]
kind = "number"
lower = 17                  # the census asked persons above 16
upper = 90
step = 1

[columns.education-num]
kind = "number"
lower = 1
upper = 16
step = 1

[columns.marital-status]
kind = "category"
levels = ["Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent", "Married-AF-spouse"]

[columns.occupation]
kind = "category"
levels = ["Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty", "Handlers-cleaners", \
"Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving", "Priv-house-serv", "Protective-serv", "Armed-Forces"]
missing = true

[columns.sex]
kind = "category"
levels = ["Female", "Male"]

[columns.capital-gain]
kind = "number"
lower = 0
upper = 100000
step = 100                  # finer would be more to count and no better
spikes = [0]                # most people have none: a value with a mass of its own

[columns.hours-per-week]
kind = "number"
lower = 1
upper = 99
step = 1

[columns.income]
kind = "category"
levels = ["<=50K", ">50K"]
"""

# %% [markdown]
# ## The plan: what a budget buys
#
# Still no data are read. Epsilon is the budget: how much one person may change what comes out. Less of it means more
# noise, and the plan tells how much. Not content? Choose again, it is free.

# %%
(folder / "schema.toml").write_text(SCHEMA)
shell("dpearl plan --schema schema.toml --rows 8000 --epsilon 1")

# %% [markdown]
# ## All of it in one go
#
# `synth` reads the rows, writes a release (noisy counts, protected), trains on the release alone, and writes
# synthetic rows and a report. The ledger keeps the books: it now holds a budget of 1, all of it spent.

# %%
shell(
    "dpearl synth people.csv --schema schema.toml --epsilon 1 --ledger ledger.jsonl -n 8000 -o synthetic.csv --report report.html"
)

# %%
shell("dpearl ledger ledger.jsonl")

# %% [markdown]
# ## Is it of use?
#
# `report.html` is made of the release and of synthetic rows, so it may be published with them: what is promised, how
# noisy each statistic is, how well the synthetic rows fit. It cannot tell how somebody's own analysis will fare. So
# we try one: a model learns from synthetic people who earns more than 50,000 dollars, and is then asked about real
# people that were not in the file. An AUC of 0.5 is guessing, 1 is always right. (A figure about real rows is
# PRIVATE, no budget covers it. `dpearl evaluate` makes a whole page of such figures, for the owner.)

# %%
test = datasets.adult_test().to_pandas()


def auc(table: pd.DataFrame) -> float:
    """How well one learns from this table what the test rows earn."""
    both = pd.concat([table, test], join="inner", ignore_index=True).drop(columns="income")
    for name in both.select_dtypes(exclude="number"):
        both[name] = both[name].astype("category")
    seen, asked = both[: len(table)], both[len(table) :]
    learner = HistGradientBoostingClassifier(max_iter=50, categorical_features="from_dtype", random_state=0)
    learner.fit(seen, table["income"] == ">50K")
    return float(roc_auc_score(test["income"] == ">50K", learner.predict_proba(asked)[:, 1]))


people, synthetic = pd.read_csv(folder / "people.csv"), pd.read_csv(folder / "synthetic.csv")
from_real, from_synthetic = (auc(table) for table in (people[synthetic.columns], synthetic))
print(f"AUC on real test rows: {from_real:.3f} learnt from real people, {from_synthetic:.3f} from synthetic ones")
print("Written:", *sorted(path.name for path in folder.iterdir()))
