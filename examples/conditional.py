# %% [markdown]
# # Conditional sampling: rows that have something in common
#
# "Five hundred women who earn more than 50,000 dollars", or "as many of each class": a trained model makes rows under
# conditions, as many as you ask for. It costs no privacy, because the model has learnt from a release and sees no
# rows.

# %%
import pandas as pd

import dpearl
from dpearl import datasets, plot
from dpearl.errors import UsageError

people = datasets.adult().to_pandas().sample(10_000, random_state=0)  # answers to a census, public for long
schema = dpearl.parse_schema(
    {
        "label": "income",
        "columns": {
            "age": {"kind": "number", "lower": 17, "upper": 90, "step": 1},
            "education-num": {"kind": "number", "lower": 1, "upper": 16, "step": 1},
            "sex": {"kind": "category", "levels": ["Female", "Male"]},
            "hours-per-week": {"kind": "number", "lower": 1, "upper": 99, "step": 1},
            "income": {"kind": "category", "levels": ["<=50K", ">50K"]},
        },
    }
)
pearl = dpearl.PEARL(schema, epsilon=1.0).fit(people)

# %% [markdown]
# ## One condition, or several
#
# `where` gives columns a value, in the schema's own words. A condition on the label picks the class before rows are
# made, so it costs no time. Other conditions are met by making rows until enough of them fit, so rare ones take
# longer.

# %%
rich_women = pearl.sample(500, where={"income": ">50K", "sex": "Female"}, seed=1)
rich_women.head()

# %% [markdown]
# ## As many of each class
#
# About a quarter of these people earn more than 50,000 dollars. Somebody who trains a classifier may want half.

# %%
balanced = pd.concat([pearl.sample(2000, where={"income": income}, seed=2) for income in ("<=50K", ">50K")])
as_it_is = pearl.sample(4000, seed=2)
print(pd.DataFrame({"as it is": as_it_is["income"].value_counts(), "balanced": balanced["income"].value_counts()}))

# %% [markdown]
# ## Do the conditions mean what they say?
#
# Rows under a condition should look like the real rows that meet it. The figure compares with real rows, so of
# private data it would be PRIVATE; the census is public.

# %%
real = people[(people["income"] == ">50K") & (people["sex"] == "Female")]
plot.histograms(
    schema,
    {"real women above 50K": real, "synthetic women above 50K": rich_women},
    columns=["age", "education-num", "hours-per-week"],
    title="PRIVATE",
)

# %% [markdown]
# These women are few among 10,000 people, and the release protects each of them, so what it knows of them is blurred:
# the more conditions, the fewer rows stood behind them.
#
# ## What cannot be met is said
#
# A value that the schema does not know is refused at once, with what may have been meant.

# %%
try:
    pearl.sample(10, where={"sex": "Femal"})
except UsageError as error:
    print(error)
