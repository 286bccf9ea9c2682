# %% [markdown]
# # Comparing two epsilons
#
# Epsilon is the budget: how much one person may change what comes out. Smaller protects better, and blurs more. How
# much, is worth seeing before choosing.

# %%
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpearl
from dpearl import datasets, plot
from dpearl.ledger import read_ledger, set_budget

folder = Path(time.strftime("two_epsilons-%Y%m%d-%H%M%S"))  # a new one for each run: dpearl never overwrites a file
folder.mkdir()

# %% [markdown]
# ## What an attacker gets
#
# This needs no data. Somebody suspects that you are in the table, knows everybody else in it, and has the best test
# there is. The curve says how often the test catches those who are in (up) for a given share of false alarms
# (across). The diagonal is guessing.

# %%
budgets = {"epsilon 0.1": dpearl.Budget(0.1, 1e-5), "epsilon 2": dpearl.Budget(2.0, 1e-5)}
figure = plot.tradeoff(budgets, title="The best attacker")
plot.save(figure, folder / "tradeoff.png")
figure

# %% [markdown]
# ## What an analyst gets
#
# The same rows under both budgets. **Do not do this with private rows just to look**: two releases about the same
# people are two chances to learn of them, and the costs add up. The ledger shows how much. A comparison like this one
# belongs on public data of a similar kind, as here (a census of 1994).

# %%
people = datasets.adult().to_pandas().sample(5_000, random_state=0)
schema = dpearl.parse_schema(
    {
        "label": "income",
        "columns": {
            "age": {"kind": "number", "lower": 17, "upper": 90, "step": 1},
            "education-num": {"kind": "number", "lower": 1, "upper": 16, "step": 1},
            "relationship": {
                "kind": "category",
                "levels": ["Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"],
            },
            "income": {"kind": "category", "levels": ["<=50K", ">50K"]},
        },
    }
)
set_budget(folder / "ledger.jsonl", epsilon=2.1)  # what these people are asked to bear, all in all
models = {
    name: dpearl.PEARL(schema, budget.epsilon, ledger=folder / "ledger.jsonl").fit(people) for name, budget in budgets.items()
}
print(f"Spent together: epsilon {read_ledger(folder / 'ledger.jsonl').spent:.3f}")

# %% [markdown]
# Together they cost a little more than 2, not 2.1: Gaussian noise adds up by squares, and the ledger counts exactly.
#
# ## What was released
#
# The same column twice. The error bars come from the noise that the release states: no real row is needed to draw
# them, so these figures are public.

# %%
plot.histograms(models["epsilon 0.1"].model_, columns=["age", "relationship"], title="epsilon 0.1")

# %%
plot.histograms(models["epsilon 2"].model_, columns=["age", "relationship"], title="epsilon 2")

# %% [markdown]
# ## And against the truth
#
# The owner's view, PRIVATE where rows are. Shares of a single column survive a small epsilon. What two columns have
# to do with each other is finer, and goes first.


# %%
def distance(one: pd.DataFrame, other: pd.DataFrame, columns: list[str]) -> float:
    """Total variation between shares: 0 for the same, 1 for nothing in common."""
    shares = [table.assign(age=table["age"] // 10).value_counts(normalize=True, subset=columns) for table in (one, other)]
    return float(np.abs(shares[0].sub(shares[1], fill_value=0)).sum() / 2)


made = {name: pearl.sample(5_000, seed=1) for name, pearl in models.items()}
table = pd.DataFrame(
    {
        name: {
            "relationship": distance(people, rows, ["relationship"]),
            "age and relationship": distance(people, rows, ["age", "relationship"]),
            "age, relationship and income": distance(people, rows, ["age", "relationship", "income"]),
        }
        for name, rows in made.items()
    }
)
print(table.round(3))

# %%
plot.pairs(schema, "relationship", "age", {"real": people, **made}, title="PRIVATE")

# %% [markdown]
# More rows buy the same sharpness for less epsilon: noise does not grow with the table. Ten times as many people at a
# tenth of the epsilon are about as sharp.
