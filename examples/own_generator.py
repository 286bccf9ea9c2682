# %% [markdown]
# # Bring your own generator
#
# A release does not say how it must be learnt from. Here a torch module of your own learns to make rows that have the
# released statistics. It never sees a row, so you may try as many networks as you like: nothing of it costs privacy.

# %%
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import dpearl
from dpearl import plot

folder = Path(time.strftime("own_generator-%Y%m%d-%H%M%S"))  # a new one for each run: dpearl never overwrites a file
folder.mkdir()

# %% [markdown]
# ## Rows
#
# Households that are invented: old houses use more, and gas more than heat pumps.

# %%
chance = np.random.default_rng(1)
built = chance.choice([1950, 1980, 2010], 10_000, p=[0.3, 0.5, 0.2]) + chance.integers(0, 15, 10_000)
heating = np.where(chance.random(10_000) < (built - 1940) / 100, "pump", "gas")
use = np.where(heating == "gas", 22, 7) - (built - 1950) / 10 + chance.normal(0, 2, 10_000)
homes = pd.DataFrame({"built": built, "use": use.clip(0, 40).round(1), "heating": heating})

schema = dpearl.parse_schema(
    {
        "label": "heating",
        "columns": {
            "built": {"kind": "number", "lower": 1940, "upper": 2030, "step": 1},
            "use": {"kind": "number", "lower": 0, "upper": 40, "step": 0.1},
            "heating": {"kind": "category", "levels": ["gas", "pump"]},
        },
    }
)

# %% [markdown]
# ## A release that a network can follow
#
# The default recipe counts pairs of columns, which its own kind of model follows best. A network follows
# *frequencies*: averages of waves through the rows, which is the idea of the PEARL paper. Recipe `paper` releases
# those. (It protects a person against being *replaced* by another, and takes the number of rows as public.)

# %%
offer = dpearl.Offer(schema, dpearl.RECIPES["paper"], dpearl.Budget(epsilon=2.0, delta=1e-5))
release = dpearl.release_rows(homes, offer, ledger_path=folder / "ledger.jsonl")
release

# %% [markdown]
# ## The network
#
# Noise and the class of a row go in, a row comes out. `Axes` knows the release's columns: how many classes the label
# has, how many numbers make a row, and how to bend any numbers into a valid row.


# %%
class Small(nn.Module):
    """Two layers, with a shortcut past them."""

    latent = 8  # how much noise a row takes

    def __init__(self, axes: dpearl.Axes) -> None:
        super().__init__()
        self.axes = axes
        inputs = self.latent + axes.classes
        self.straight = nn.Linear(inputs, axes.scores)
        self.bent = nn.Sequential(nn.Linear(inputs, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, axes.scores))

    def forward(self, latent: Tensor, classes: Tensor) -> Tensor:
        known = nn.functional.one_hot(classes, self.axes.classes)
        both = torch.cat([latent, known], dim=1)
        return self.axes.rows(self.straight(both) + self.bent(both))


# %% [markdown]
# ## Train
#
# The loss is the distance between the frequencies of made rows and the released ones. The noise floor is what true
# rows would have: below it there is nothing left to learn but noise.

# %%
torch.manual_seed(0)  # the network's first weights
settings = dpearl.Settings(iterations=800, batch=500, generator_steps=10)
history: list[dpearl.Moment] = []
model = dpearl.fit(release, settings, generator=Small(dpearl.Axes.of(release)), watch=history.append)
plot.training(history, title="A network of my own")

# %%
synthetic = model.sample(len(homes))
figure = plot.histograms(schema, {"real": homes, "synthetic": synthetic}, title="PRIVATE")
plot.save(figure, folder / "PRIVATE.png")
figure

# %% [markdown]
# The network has the two kinds of heating and what they use, and blurs the years in which many houses were built:
# noise hides fine waves first, and this training is short. For a table like this one the default recipe is the better
# choice. A network of your own is for trying ideas, and for rows that have a structure you know.
#
# ## Keep it
#
# The file holds the weights and the whole release, never code. To load it, bring the network again.

# %%
dpearl.save_synthesizer(model, folder / "model.dpearl")
again = dpearl.load_synthesizer(folder / "model.dpearl", generator=Small(dpearl.Axes.of(release)))
print("The same rows:", again.sample(100).equals(model.sample(100)))
made = synthetic.to_pandas()
for name, table in {"real": homes, "synthetic": made}.items():
    means = table.groupby("heating", observed=True)["use"].mean()
    print(f"{name:>9}: mean use with gas {means['gas']:.1f}, with a heat pump {means['pump']:.1f}")
