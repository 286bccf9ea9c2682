"""The wheel: the same bytes from the same sources, whole, typed, and useful where nothing but its dependencies is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD = "from setuptools import build_meta; build_meta.build_wheel('dist')"


def run(*command: str | Path, folder: Path, **variables: str) -> str:
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SOURCE_DATE"))}
    done = subprocess.run(command, cwd=folder, env=known | variables, capture_output=True, text=True, check=False, umask=0o022)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(folder: Path) -> Path:
    """A wheel of a copy of the sources, so that builds do not meet."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    run(sys.executable, "-c", BUILD, folder=folder, SOURCE_DATE_EPOCH="1700000000")
    (wheel,) = (folder / "dist").iterdir()
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("one"))


def test_the_same_sources_give_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "a longer name").mkdir()
    before = os.umask(0o027)
    try:
        again = built(tmp_path / "a longer name")
    finally:
        os.umask(before)
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()
    stamps = {entry.date_time for entry in zipfile.ZipFile(wheel).infolist()}
    assert stamps == {time.gmtime(1_700_000_000)[:6]}


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    there = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/dpearl").rglob("*") if path.is_file()}
    there = {name for name in there if "__pycache__" not in name}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == there
    assert "dpearl/py.typed" in held


def test_an_installed_wheel_releases_and_inspects(wheel: Path, tmp_path: Path) -> None:
    """In an environment that borrows the dependencies of this one and nothing else; `make smoke` starts from nothing."""
    run(sys.executable, "-m", "venv", "--without-pip", "venv", folder=tmp_path)
    python = tmp_path / "venv/bin/python"
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=tmp_path).strip())
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ("-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel)
    run(sys.executable, *install, folder=tmp_path)
    (tmp_path / "work").mkdir()
    told = run(python, ROOT / "tests/smoke.py", "work", "--owner", folder=tmp_path)
    assert f"dpearl 0.1.0 from {own / 'dpearl'}" in told
