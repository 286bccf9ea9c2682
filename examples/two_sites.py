# %% [markdown]
# # Two sites, one release
#
# Two hospitals want one synthetic table of both their patients. Neither may send its rows away. They do not have to:
# what dpearl measures are sums, and sums of parts add up to the sum of the whole. Each site sums its own rows;
# somebody whom both trust adds the two up and adds noise, once, for everybody. (If each made a release of its own,
# there would be noise twice.)
#
# Each line after `$` is what you would type in a shell.

# %%
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpearl
from dpearl import plot

folder = Path(time.strftime("two_sites-%Y%m%d-%H%M%S"))  # a new one for each run: dpearl never overwrites a file
for place in ("north", "south", "middle"):
    (folder / place).mkdir(parents=True)


def shell(place: str, command: str) -> None:
    """Run a command in the folder of a place, and show what it says."""
    done = subprocess.run([sys.executable, "-m", *shlex.split(command)], cwd=folder / place, capture_output=True, text=True)
    print(f"{place}$ {command}\n{done.stdout}{done.stderr}")
    done.check_returncode()


# %% [markdown]
# ## Rows at two sites
#
# Patients of the south are older, and stay longer. Nobody is at both sites.


# %%
def patients(rows: int, age: float, seed: int) -> pd.DataFrame:
    """Invented patients of a hospital."""
    chance = np.random.default_rng(seed)
    ages = chance.normal(age, 7, rows).clip(18, 100).astype(int)
    days = chance.poisson(ages / 12)
    risk = chance.random(rows) < 0.05 + 0.01 * days
    return pd.DataFrame({"age": ages, "days": days.clip(0, 30), "readmitted": np.where(risk, "yes", "no")})


north, south = patients(3000, 45, seed=1), patients(5000, 70, seed=2)
north.to_csv(folder / "north" / "patients.csv", index=False)
south.to_csv(folder / "south" / "patients.csv", index=False)

# %% [markdown]
# ## One schema for both
#
# Sums add up only if all sites measure the same, so they agree on the schema first. It holds nothing private and may
# travel.

# %%
SCHEMA = """
label = "readmitted"

[columns.age]
kind = "number"
lower = 18
upper = 100
step = 1

[columns.days]
kind = "number"
lower = 0
upper = 30
step = 1

[columns.readmitted]
kind = "category"
levels = ["no", "yes"]
"""
for place in ("north", "south"):
    (folder / place / "schema.toml").write_text(SCHEMA)

# %% [markdown]
# ## Each site sums its rows
#
# The sums are exact, and so they are as private as the rows. They go to the one who is trusted, over a safe line, and
# to nobody else.

# %%
shell("north", "dpearl embed patients.csv --schema schema.toml -o ../middle/north.sums")
shell("south", "dpearl embed patients.csv --schema schema.toml -o ../middle/south.sums")

# %% [markdown]
# ## Merge, and release once
#
# `merge` removes the parts. `release` adds the noise and charges the ledger. From here on nothing is private.

# %%
shell("middle", "dpearl merge north.sums south.sums -o both.sums")
shell("middle", "dpearl release both.sums --epsilon 1 --ledger ledger.jsonl -o both.dpearl")
(folder / "middle" / "both.sums").unlink()  # exact sums are not needed any more

# %% [markdown]
# ## Train, sample, look
#
# Anybody may do this, at either site or elsewhere.

# %%
release = dpearl.load_release(folder / "middle" / "both.dpearl")
model = dpearl.fit(release)
synthetic = model.sample(8000).to_pandas()

figure = plot.histograms(release, {"north and south": pd.concat([north, south]), "synthetic": synthetic}, title="PRIVATE")
plot.save(figure, folder / "middle" / "PRIVATE.png")
figure

# %% [markdown]
# The figure holds real rows, so of real patients it would be PRIVATE. The synthetic table has both humps of age, the
# north's and the south's, and does not tell which site a row came from: the schema did not ask.
#
# Is there nobody whom both trust? Then sites share their sums in secret: each splits its sum into random pieces,
# nobody ever sees the sum of another, and each adds its part of the noise. That takes a few more commands: see
# *Sites* in `docs/sites.md`.

# %%
print("Mean age, real and synthetic:", round(pd.concat([north, south])["age"].mean(), 1), round(synthetic["age"].mean(), 1))
print("Left in the middle:", *sorted(path.name for path in (folder / "middle").iterdir()))
