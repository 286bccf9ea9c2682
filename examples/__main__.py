"""Notebooks from the scripts, run from top to bottom: `python examples` for all, `python examples hospital` for one."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import jupytext
from nbclient import NotebookClient

HERE = Path(__file__).parent


def make(script: Path) -> None:
    """Run a script as a notebook, in a folder that is removed again, and write it with what it showed."""
    notebook = jupytext.read(script, fmt="py:percent")
    notebook.metadata = {}
    for place, cell in enumerate(notebook.cells):
        cell.id = f"cell-{place}"  # the same in each run, so that only outputs differ
    with tempfile.TemporaryDirectory() as folder:
        run = NotebookClient(notebook, kernel_name="python3", record_timing=False, resources={"metadata": {"path": folder}})
        run.execute()
    jupytext.write(notebook, script.with_suffix(".ipynb"))


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.stem for path in HERE.glob("[a-z]*.py")):
        print(name, file=sys.stderr)
        make(HERE / f"{name}.py")
