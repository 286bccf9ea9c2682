# %% [markdown]
# # Release here, train there
#
# The owner has the rows, and perhaps an old machine without a GPU. The analyst has a fast machine, and must never see
# the rows. Between them goes one file: the release. It was protected when it was written, so it does not matter who
# gets it, how often somebody trains on it, or how clever the training is. (The word for this is *post-processing*:
# what you do with a protected result cannot make it less protected.)
#
# Here the two machines are two folders and two processes.

# %%
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpearl

folder = Path(time.strftime("another_machine-%Y%m%d-%H%M%S"))  # a new one for each run: dpearl never overwrites a file
owner, analyst = folder / "owner", folder / "analyst"
owner.mkdir(parents=True)
analyst.mkdir()

# %% [markdown]
# ## The owner
#
# Rows, a schema, a budget. The owner needs neither torch nor a GPU: `pip install dpearl` is enough.

# %%
chance = np.random.default_rng(1)
years = chance.integers(0, 41, 6000)
salary = (30_000 + 1_500 * years + chance.normal(0, 8_000, 6000)).clip(15_000, 150_000).round(-2)
people = pd.DataFrame({"years": years, "salary": salary, "union": chance.random(6000) < 0.2 + 0.01 * years})

schema = dpearl.parse_schema(
    {
        "label": "union",
        "columns": {
            "years": {"kind": "number", "lower": 0, "upper": 50, "step": 1},
            "salary": {"kind": "number", "lower": 15_000, "upper": 150_000, "step": 100},
            "union": {"kind": "boolean"},
        },
    }
)
offer = dpearl.Offer(schema, dpearl.RECIPES["auto"], dpearl.Budget(epsilon=1.0, delta=1e-5))
release = dpearl.release_rows(people, offer, ledger_path=owner / "ledger.jsonl")
dpearl.save_release(release, owner / "people.dpearl")
release

# %% [markdown]
# ## The way between
#
# One file. Its digest tells the analyst that it is the owner's file, if the owner tells it on another way.

# %%
shutil.copy(owner / "people.dpearl", analyst)
print((analyst / "people.dpearl").stat().st_size // 1000, "kB, digest", release.digest)

# %% [markdown]
# ## The analyst
#
# Another process, in another folder, with nothing but the file. To show that training has no way to rows, the script
# below refuses to load any part of dpearl that can read rows, draw the noise or keep a ledger. It trains all the
# same.

# %%
(analyst / "train.py").write_text('''
import sys
from pathlib import Path

PRIVATE = ("read", "sums", "persons", "engines", "embed", "tally", "stream", "sharing", "sites", "noise", "ledger", "owner")


class Refuse:
    """Nothing private is loaded here."""

    def find_spec(self, name, path=None, target=None):
        if name.startswith("dpearl.") and name.split(".")[1] in PRIVATE:
            raise ImportError(f"{name} is not for the analyst")


sys.meta_path.insert(0, Refuse())

import dpearl

try:
    dpearl.release_rows
except ImportError as error:
    print("Reading rows:", error)

release = dpearl.load_release("people.dpearl")
print("Digest:", release.digest)
model = dpearl.fit(release, seed=1)
dpearl.save_synthesizer(model, "model.dpearl")
model.sample(6000).to_pandas().to_csv("synthetic.csv", index=False)
print("Here now:", *sorted(path.name for path in Path().iterdir()))
''')
done = subprocess.run([sys.executable, "train.py"], cwd=analyst, capture_output=True, text=True)
print(done.stdout, done.stderr)
done.check_returncode()

# %% [markdown]
# ## What came of it
#
# The owner may compare, for the owner has both. What is printed here is about real rows: of real people it would be
# PRIVATE.

# %%
synthetic = pd.read_csv(analyst / "synthetic.csv")
for name, table in {"real": people, "synthetic": synthetic}.items():
    slope = np.polyfit(table["years"], table["salary"], 1)[0]
    print(f"{name:>9}: a year is worth {slope:,.0f}; members of a union {table['union'].mean():.1%}")
