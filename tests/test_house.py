"""The laws of the house, read from the imports themselves."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import dpearl

SOURCE = Path(dpearl.__file__).parent
TORCH = {
    *(
        "generator",
        "mixture",
        "withheld",
        "remainder",
        "drawing",
        "pictures",
        "distance",
        "critic",
        "checkpoint",
        "fitting",
        "train",
        "synthesizer",
        "imagery",
    ),
}
PUBLIC = {"release", "statement", "design", "codec", "schema", "settings", "condition", "write", *TORCH} - {"imagery"} | {
    *(
        "grid",
        "density",
        "choice",
        "moment",
        "coded",
        "precision",
        "goodness",
        "chart",
        "plot",
        "svg",
        "report.page",
        "report.public",
    ),
    *("measurement", "questions", "bounds", "modes", "octaves", "frames", "card", "letters", "sign"),
}
PRIVATE = {"read", "sums", "persons", "engines", "embed", "tally", "stream", "sharing", "sites", "noise", "ledger"}
PICKLERS = {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def modules() -> dict[str, Path]:
    """Every module by its dotted name below dpearl; a package stands for its __init__."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _statements(tree: ast.AST, anywhere: bool) -> list[ast.Import | ast.ImportFrom]:
    """Imports that run: at module level, or anywhere; never those for the type checker alone."""
    found: list[ast.Import | ast.ImportFrom] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif anywhere or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found += _statements(node, anywhere)
    return found


@cache
def imports(module: str, anywhere: bool = True) -> frozenset[str]:
    """Full names of what a module imports."""
    names = set()
    for node in _statements(ast.parse(modules()[module].read_text(encoding="utf-8")), anywhere):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        else:
            assert node.level == 0, f"{module}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def rooms(module: str) -> set[str]:
    """Which modules of the house a module imports, the packages on the way included."""
    found = set()
    for name in imports(module):
        parts = name.split(".")
        if parts[0] == "dpearl":
            found |= {".".join(parts[1:end]) for end in range(2, len(parts) + 1)} & modules().keys()
    own = {".".join(module.split(".")[:end]) for end in range(1, module.count(".") + 1)}
    return (found | (own - {""})) - {module}


def reach(module: str) -> set[str]:
    """Everything a module loads, directly or not."""
    seen: set[str] = set()
    todo = [module]
    while todo:
        for room in rooms(todo.pop()) - seen:
            seen.add(room)
            todo.append(room)
    return seen


def test_modules_import_in_one_direction() -> None:
    """No cycles: a package's __init__ may gather its files, but then none of them imports from the package."""
    graph: dict[str, set[str]] = {}
    for name in modules().keys() - {""}:
        chains = [full.removeprefix("dpearl.") for full in imports(name, anywhere=False) if full.startswith("dpearl.")]
        graph[name] = {chain if chain in modules() else chain.rpartition(".")[0] for chain in chains} - {""}
    assert set(TopologicalSorter(graph).static_order()) == modules().keys() - {""}


def test_only_the_door_draws_noise() -> None:
    assert {name for name in modules() if "noise" in rooms(name)} == {"sanitize"}


def test_torch_lives_on_the_public_side_alone() -> None:
    users = {name for name in modules() if any(full.split(".")[0] == "torch" for full in imports(name))}
    assert users <= TORCH
    assert not {name for name in ("owner", "embed", "read", "sanitize", "release", "ledger") if reach(name) & TORCH}


@pytest.mark.parametrize("name", sorted(PUBLIC & modules().keys()))
def test_the_public_side_never_reaches_rows_noise_or_ledger(name: str) -> None:
    assert not {room for room in reach(name) if room.split(".")[0] in PRIVATE}


@pytest.mark.parametrize("name", sorted(PUBLIC & modules().keys()))
def test_loading_the_public_side_loads_nothing_private(name: str) -> None:
    script = f"import dpearl.{name}, sys; print(*(m for m in sys.modules if m.startswith('dpearl.')))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert f"dpearl.{name}" in loaded
    assert not {module for module in loaded if module.split(".")[1] in PRIVATE}


def test_nothing_is_unpickled_or_evaluated() -> None:
    for name, path in modules().items():
        assert not {full.split(".")[0] for full in imports(name)} & PICKLERS
        for call in (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)):
            called = ast.unparse(call.func)
            assert called not in {"eval", "exec", "torch.load", "np.load", "numpy.load"}, f"{name}: {called}"
            assert not any(word.arg == "allow_pickle" for word in call.keywords), name


def test_public_names_are_all_there_and_are_all() -> None:
    for name in modules():
        if name and not name.startswith("__main__"):
            importlib.import_module(f"dpearl.{name}")
    assert sorted(dpearl.__all__) == sorted([*dpearl._ROOMS, *(name for names in dpearl._HOMES.values() for name in names)])
    assert all(getattr(dpearl, room) is importlib.import_module(f"dpearl.{room}") for room in dpearl._ROOMS)
    for home, names in dpearl._HOMES.items():
        for name in names:
            assert getattr(dpearl, name) is getattr(importlib.import_module(f"dpearl.{home}"), name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = dpearl.nonsense


def test_the_type_checker_sees_the_names_that_users_see() -> None:
    tree = ast.parse(modules()[""].read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    shown = {
        (str(node.module).removeprefix("dpearl."), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert shown == {(home, name) for home, names in dpearl._HOMES.items() for name in names} | {
        ("dpearl", room) for room in dpearl._ROOMS
    }


WITHOUT_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ImportError("torch is not installed here")
sys.meta_path.insert(0, Refuse())
from dpearl.cli import main
sys.argv = ["dpearl", *sys.argv[1:]]
main()
"""


def test_an_owner_can_release_where_torch_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b\n1,x\n2,y\n3,x\n")
    (tmp_path / "s.toml").write_text(
        '[columns.a]\nkind = "number"\nlower = 0\nupper = 9\nstep = 1\n[columns.b]\nkind = "category"\nlevels = ["x", "y"]\n'
    )
    command = ["release", "d.csv", "--schema", "s.toml", "--epsilon", "1", "-k", "8", "-o", "out.dpearl"]
    run = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *command], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert dpearl.load_release(tmp_path / "out.dpearl").epsilon <= 1


def test_what_an_owner_installs_does_not_include_torch() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[^\w-]", dependency)[0] for dependency in project["dependencies"]}
    assert "torch" not in names
    assert any(dependency.startswith("torch") for dependency in project["optional-dependencies"]["train"])
