# %% [markdown]
# # Handwritten digits, from pictures to a grid of synthetic pictures
#
# Here are 1,797 small pictures of handwritten digits, 8 × 8 pixels, that scikit-learn carries. We make others like
# them, such that what we give away hangs little on any one picture. (One picture is protected. Where a writer has
# many, protect writers: name them in a `person` column, as the hospital example does.)

# %%
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import dpearl
from dpearl import plot
from dpearl.settings import PictureSettings

folder = Path(time.strftime("digits-%Y%m%d-%H%M%S"))  # a new one for each run: dpearl never overwrites a file
folder.mkdir()

digits = load_digits()
grey = (digits.images * (255 / 16)).astype(np.uint8)  # from 0 to 255, as pictures have it
cells = pa.array([picture.tobytes() for picture in grey], pa.binary(64))  # in a table, a picture is its bytes
everybody = pa.table({"picture": cells, "digit": digits.target})
private, kept_out = everybody[:1500], everybody[1500:]  # the last ones are for a test

# %% [markdown]
# ## The schema
#
# A size, and the ten digits. With a label, pictures of each digit are measured and made apart.

# %%
schema = dpearl.parse_schema(
    {
        "label": "digit",
        "columns": {
            "picture": {"kind": "image", "height": 8, "width": 8},
            "digit": {"kind": "category", "levels": list(range(10))},
        },
    }
)
schema

# %% [markdown]
# ## Fit
#
# What is released are noisy averages over all pictures of a digit: how bright, how bright together, how sharp. A
# generator then learns to paint pictures with these averages.
#
# 1,500 pictures are few. One of them is one in 150 of its digit, so much noise is needed to hide it, and at
# `epsilon=1` little would be left to see. We take 5, which is a weak promise; sixty thousand pictures give better
# ones at 1. The statement says what 5 means: how often the best attacker would guess right.

# %%
quick = PictureSettings(iterations=300)  # for an example; the default is 3,000 steps
pearl = dpearl.PEARL(schema, epsilon=5.0, ledger=folder / "ledger.jsonl", settings=quick).fit(private)
print(pearl.statement_.split("How it was made")[0])

# %% [markdown]
# ## Look
#
# Ten synthetic pictures of each digit. They are public.

# %%
figure = plot.pictures(pearl.model_, title="synthetic digits")
plot.save(figure, folder / "synthetic.png")
figure

# %% [markdown]
# Beside the real ones. With real pictures in it the figure would be PRIVATE; these are public.

# %%
synthetic = pearl.sample(1500)
plot.pictures(schema, {"real": private, "synthetic": synthetic})

# %% [markdown]
# ## Is it of use?
#
# A simple classifier learns digits from synthetic pictures alone, and reads real ones that took no part in anything.


# %%
def pixels(table: pa.Table) -> np.ndarray:
    """A line of 64 numbers between 0 and 1 for each picture."""
    return np.stack([np.frombuffer(cell, np.uint8) for cell in table["picture"].to_pylist()]) / 255


def right(table: pa.Table) -> float:
    """How many of the pictures that were kept out are read correctly by who learnt from this table."""
    learner = LogisticRegression(max_iter=300).fit(pixels(table), table["digit"].to_numpy())
    return float(learner.score(pixels(kept_out), kept_out["digit"].to_numpy()))


from_real, from_synthetic = right(private), right(synthetic)
print(f"Real digits read correctly: {from_real:.0%} learnt from real pictures, {from_synthetic:.0%} from synthetic ones")
print("Written:", *sorted(path.name for path in folder.iterdir()))
