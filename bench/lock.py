"""Lock files: all that `make` installs, at the versions of constraints.txt, with the SHA-256 of every file of these. `make lock`.

    lock/build.txt   what builds: setuptools
    lock/use.txt     what `make demo` needs
    lock/dev.txt     what `make test` needs beside it
    lock/fuzz.txt    what `make fuzz` needs beside that

Which packages are needed is pip's answer for this platform. The hashes are those of all files that the index offers of a version
for Python 3.11 to 3.13, whatever the platform, and of the file that pip takes here where the index has no such file: the CPU
build of torch. Elsewhere another build of torch may need packages that no lock names (CUDA); `make` then says so, and takes
those by constraints.txt, without hashes.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[1]
LOCK, CONSTRAINTS = ROOT / "lock", ROOT / "constraints.txt"
EXTRAS = {"use": ("train", "report"), "dev": ("dev",), "fuzz": ("fuzz",)}
BUILD = ("setuptools",)
INTERPRETERS = {"py3", "py311", "py312", "py313", "cp311", "cp312", "cp313"}
HEAD = "# Made by `make lock` from constraints.txt. pip install --require-hashes --no-deps -r this file.\n"


@dataclass(frozen=True)
class Taken:
    """The file that pip takes here of a package."""

    name: str
    version: Version
    file: str
    sha256: str


def requirements(*extras: str) -> list[str]:
    """What the project needs, with these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]


def resolved(wanted: list[str]) -> dict[str, Taken]:
    """All packages that these need, by pip's own resolver."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        options = ("--dry-run", "--ignore-installed", "--quiet", "--report", report.name, "--constraint", str(CONSTRAINTS))
        subprocess.run([sys.executable, "-m", "pip", "install", *options, *wanted], check=True)
        found = json.loads(Path(report.name).read_text(encoding="utf-8"))["install"]
    return {canonicalize_name(item["metadata"]["name"]): _taken(item) for item in found}


def _taken(item: dict[str, Any]) -> Taken:
    origin = item["download_info"]
    name, version = canonicalize_name(item["metadata"]["name"]), Version(item["metadata"]["version"])
    return Taken(name, version, urllib.parse.unquote(Path(origin["url"]).name), origin["archive_info"]["hashes"]["sha256"])


def offered(name: str, version: Version) -> dict[str, str]:
    """File names and hashes of a version on the index that pip is set to use (PEP 503)."""
    asked = urllib.request.Request(f"{_index()}/{name}/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        links = re.findall(r'href="([^"#]+)#sha256=([0-9a-f]{64})"', answer.read().decode())
    files = {urllib.parse.unquote(html.unescape(link)).rpartition("/")[2]: digest for link, digest in links}
    return {file: digest for file, digest in files.items() if _fits(file, version)}


def _index() -> str:
    from pip._internal.commands import create_command

    return str(create_command("index").parse_args([])[0].index_url).rstrip("/")


def _fits(file: str, version: Version) -> bool:
    """Whether a file is of this public version, and can be installed by a Python that we support."""
    try:
        if not file.endswith(".whl"):
            return parse_sdist_filename(file)[1] == version
        _, own, _, tags = parse_wheel_filename(file)
    except (InvalidVersion, ValueError):
        return False
    return own.public == version.public and any(map(_supported, tags))


def _supported(tag: Tag) -> bool:
    stable = tag.abi == "abi3" and tag.interpreter.startswith("cp3") and int(tag.interpreter[3:]) <= 13
    return stable or (tag.interpreter in INTERPRETERS and not tag.abi.endswith("t"))


def entry(taken: Taken) -> str:
    """A package in a lock."""
    hashes = offered(taken.name, taken.version)
    lines = [
        f"{taken.name}=={taken.version.public}",
        *(f"--hash=sha256:{own}" for own in sorted({*hashes.values(), taken.sha256})),
    ]
    beside = "" if taken.sha256 in hashes.values() else f"# and {taken.file}, which is not on the index\n"
    return beside + " \\\n    ".join(lines) + "\n"


def main() -> None:
    LOCK.mkdir(exist_ok=True)
    known: set[str] = set()
    all_wanted = {"build": list(BUILD), **{name: requirements(*extras) for name, extras in EXTRAS.items()}}
    for name, wanted in all_wanted.items():
        fresh = {package: taken for package, taken in resolved(wanted).items() if package not in known}
        entries = (entry(taken) for _, taken in sorted(fresh.items()))
        (LOCK / f"{name}.txt").write_text(HEAD + "".join(entries), encoding="utf-8")
        print(f"lock/{name}.txt: {len(fresh)} packages", flush=True)
        known |= fresh.keys()


if __name__ == "__main__":
    main()
