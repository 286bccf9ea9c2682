"""Nothing is installed that was not chosen: pyproject, constraints and locks name the same packages, and each file has a hash."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from bench.lock import BUILD, CONSTRAINTS, EXTRAS, LOCK, requirements
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

LOCKS = ("build", *EXTRAS)


def locked(*names: str) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of every package in some locks."""
    found: dict[str, tuple[str, list[str]]] = {}
    for name in names:
        text = (LOCK / f"{name}.txt").read_text(encoding="utf-8").replace("\\\n", " ")
        for line in (line for line in text.splitlines() if not line.startswith("#")):
            pin, *hashes = line.split()
            package, version = pin.split("==")
            assert package not in found, f"{package} is locked twice"
            found[package] = (version, hashes)
    return found


def constrained() -> dict[str, str]:
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def test_every_pin_is_in_one_lock_and_every_locked_package_has_hashes() -> None:
    found = locked(*LOCKS)
    assert {name: version for name, (version, _) in found.items()} == constrained()
    for name, (_, hashes) in found.items():
        assert hashes, name
        assert len(set(hashes)) == len(hashes), name
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", own) for own in hashes), name


@pytest.mark.parametrize("lock", EXTRAS)
def test_every_dependency_is_locked_at_a_version_that_pyproject_allows(lock: str) -> None:
    """Also what dependencies need themselves, as far as they are installed here."""
    found = locked(*LOCKS[: LOCKS.index(lock) + 1])
    for need in needs([Requirement(line) for line in requirements(*EXTRAS[lock])]):
        assert canonicalize_name(need.name) in found, need
        assert Version(found[canonicalize_name(need.name)][0]) in need.specifier, need
    assert set(BUILD) <= found.keys()


def needs(wanted: list[Requirement]) -> Iterator[Requirement]:
    """What these need, and what that needs."""
    todo, seen = list(wanted), set()
    while todo:
        need = todo.pop()
        yield need
        if (need.name, frozenset(need.extras)) in seen:
            continue
        seen.add((need.name, frozenset(need.extras)))
        try:
            inside = distribution(need.name).requires or []
        except PackageNotFoundError:
            continue
        for line in map(Requirement, inside):
            if line.marker is None or any(line.marker.evaluate({"extra": extra}) for extra in ("", *need.extras)):
                todo.append(line)


def test_an_owner_installs_without_what_trains_or_tests() -> None:
    use, dev = locked("use"), locked("dev")
    assert {"numpy", "pyarrow", "torch"} <= use.keys()
    assert {"pytest", "mypy", "cryptography"} <= dev.keys()


def test_no_place_of_files_is_named() -> None:
    """Whoever installs chooses the index; a lock chooses files."""
    for name in (
        *(LOCK / f"{lock}.txt" for lock in LOCKS),
        CONSTRAINTS,
        LOCK.parent / "Makefile",
        LOCK.parent / "pyproject.toml",
    ):
        text = Path(name).read_text(encoding="utf-8")
        assert "://" not in text
        assert "index-url" not in text
        assert "find-links" not in text
