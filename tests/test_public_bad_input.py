"""Bad input to the public side: train, sample, synth, inspect of models, demo. One line, no file, no charge."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch

from dpearl import RECIPES, Budget, Offer, container, fit, parse_schema, release_rows, save_release, save_synthesizer, train
from dpearl.embed import save_partial
from dpearl.engines.local import Local
from dpearl.errors import FileError
from dpearl.ledger import read_ledger
from dpearl.owner import embed_shard, recipe_with
from dpearl.release import Release, load_release, load_release_inside
from dpearl.schema import load_schema
from dpearl.settings import AnySettings, settings_for
from dpearl.synthesizer import load_synthesizer
from test_bad_input import CATEGORY, NUMBER, PICTURES, SECRET, Dpearl

ROWS = "a,b,c\n" + f"1,x,{SECRET}\n2,y,z\n3,{SECRET},z\n" * 30
SHORT = ("--iterations", "2")
RECIPE = recipe_with(RECIPES["auto"], None, None, 8)


def short(made: Release) -> AnySettings:
    """What `--iterations 2` stands for."""
    return replace(settings_for(made.embedding.design), iterations=2)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each kind of file: two releases and their models, a partial sum, a checkpoint, and newer ones."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "s.toml").write_text("label = 'b'\n" + NUMBER + CATEGORY)
    (folder / "good.csv").write_text(ROWS)
    schema = load_schema(folder / "s.toml")
    pictures = parse_schema(tomllib.loads("label = 'label'\n" + PICTURES))
    images = {"image": np.zeros((40, 4, 4), np.uint8), "label": np.array(["x", "y"] * 20)}
    budget = Budget(99.0, 1e-5)
    for name, data, declared in (("", str(folder / "good.csv"), schema), ("pictures-", images, pictures)):
        made = release_rows(data, Offer(declared, RECIPE, budget))
        save_release(made, folder / f"{name}release.dpearl")
        save_synthesizer(fit(made, short(made), threads=1), folder / f"{name}model.dpearl")
    save_partial(embed_shard(str(folder / "good.csv"), schema, RECIPE, 0, Local(threads=1)), folder / "sums")
    with pytest.raises(KeyboardInterrupt):
        fit(load_release(folder / "release.dpearl"), checkpoint=folder / "checkpoint.part", stop=lambda: True)
    for name in ("release", "model", "checkpoint"):
        old = next(folder.glob(f"{name}.*")).read_bytes()
        newer = old.replace(rb"\"version\":1", rb"\"version\":2")
        assert newer != old
        (folder / f"newer-{name}.dpearl").write_bytes(newer)
    (folder / "folder").mkdir()
    return folder


@pytest.fixture
def dpearl(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Dpearl:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Dpearl(tmp_path, monkeypatch, capsys)


def training(*arguments: str, file: str = "release.dpearl") -> tuple[str, ...]:
    return "train", file, *SHORT, "-o", "out.dpearl", *arguments


def sampling(*arguments: str, file: str = "model.dpearl") -> tuple[str, ...]:
    return "sample", file, "-n", "3", "-o", "out.csv", *arguments


def synthesis(*arguments: str, data: Sequence[str] = ("good.csv",)) -> tuple[str, ...]:
    given = ("--schema", "s.toml", "--epsilon", "99", "-k", "8", "--ledger", "l", "-n", "3", "-o", "out.csv")
    return "synth", *data, *given, *SHORT, *arguments


BY_FILE: dict[str, Callable[[str], tuple[str, ...]]] = {
    "train": lambda file: training(file=file),
    "sample": lambda file: sampling(file=file),
    "inspect": lambda file: ("inspect", file),
    "inspect --json": lambda file: ("inspect", file, "--json"),
}
WRONG_FILES = {
    "no.dpearl": "no.dpearl: no such file",
    "folder": "folder: ",
    "good.csv": "good.csv: is not a dpearl file",
    "sums": "sums: is a PRIVATE partial sum, not a release; keep it secret",
    "checkpoint.part": "checkpoint.part: is a checkpoint of unfinished training",
    "newer-release.dpearl": "newer-release.dpearl: ",
    "newer-model.dpearl": "newer-model.dpearl: ",
    "newer-checkpoint.dpearl": "newer-checkpoint.dpearl: ",
}


@pytest.mark.parametrize("file", WRONG_FILES)
@pytest.mark.parametrize("command", BY_FILE)
def test_a_file_that_a_command_cannot_use_is_refused(dpearl: Dpearl, command: str, file: str) -> None:
    assert WRONG_FILES[file] in dpearl.refuses(*BY_FILE[command](file))


def test_a_release_is_not_sampled_and_a_model_is_not_trained(dpearl: Dpearl) -> None:
    told = dpearl.refuses(*sampling(file="release.dpearl"))
    assert "release.dpearl: is a release, not a model; `dpearl train release.dpearl -o model.dpearl` makes one" in told
    told = dpearl.refuses(*training(file="model.dpearl"))
    assert "model.dpearl: is a model already; `dpearl sample model.dpearl -n 1000 -o synthetic.csv` draws rows" in told


@pytest.mark.parametrize("kind", ["release", "model"])
def test_a_newer_file_asks_for_a_newer_dpearl(dpearl: Dpearl, kind: str) -> None:
    opens = {"release": training(file="newer-release.dpearl"), "model": sampling(file="newer-model.dpearl")}
    for arguments in (opens[kind], ("inspect", f"newer-{kind}.dpearl")):
        assert f"newer-{kind}.dpearl: was written by a newer dpearl (format 2); upgrade dpearl" in dpearl.refuses(*arguments)


@pytest.mark.parametrize("size", [0, 7, 8, 100, 2000, -8, -1])
def test_a_truncated_file_is_refused(dpearl: Dpearl, size: int) -> None:
    for name in ("release", "model"):
        whole = Path(f"{name}.dpearl").read_bytes()
        Path("cut").write_bytes(whole[:size])
        assert "cut: " in dpearl.refuses("inspect", "cut")
        assert "cut: " in dpearl.refuses(*(training(file="cut") if name == "release" else sampling(file="cut")))
    assert "damaged" in dpearl.refuses("inspect", "cut")


def test_a_model_with_one_bit_flipped_is_refused(dpearl: Dpearl) -> None:
    whole = Path("model.dpearl").read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    chance = random.Random(0)
    bits = {*range(64), *chance.sample(range(64, 8 * header), 60), *chance.sample(range(8 * header, 8 * len(whole)), 60)}
    for bit in bits:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        Path("flipped").write_bytes(flipped)
        for opened in (load_synthesizer, load_release_inside):
            with pytest.raises(FileError, match="flipped: "):
                opened("flipped")
    for arguments in (sampling(file="flipped"), ("inspect", "flipped")):
        assert "flipped: " in dpearl.refuses(*arguments)


def test_a_checkpoint_that_is_damaged_or_of_another_training_is_refused_and_kept(dpearl: Dpearl) -> None:
    whole = Path("checkpoint.part").read_bytes()
    Path("out.dpearl.part").write_bytes(whole)
    told = dpearl.refuses(*training("--seed", "5"))
    assert "out.dpearl.part: was left by other training (iterations differs); remove it" in told
    for damaged in (whole[:-1], whole[:100], b"", whole[:-9] + bytes([whole[-9] ^ 4]) + whole[-8:]):
        Path("out.dpearl.part").write_bytes(damaged)
        assert "out.dpearl.part: " in dpearl.refuses(*training())
    shutil.copy("release.dpearl", "more.dpearl.part")
    assert "more.dpearl.part: is a dpearl-release file" in dpearl.refuses(*training("-o", "more.dpearl"))
    Path("folder", "deep.dpearl.part").mkdir()
    assert "deep.dpearl.part: " in dpearl.refuses(*training("-o", "folder/deep.dpearl"))


def test_a_model_whose_parts_do_not_fit_is_refused(dpearl: Dpearl) -> None:
    """Whole files with a right digest, of parts that do not belong together."""
    meta, arrays = container.read("model.dpearl", "dpearl-model")
    head = {name: value for name, value in meta.items() if name not in ("format", "version", "digest")}
    weights = sorted(name for name in arrays if name.startswith("generator/"))
    other = {**head["release"], "statement": {**head["release"]["statement"], "epsilon": 0.1}}
    wrong = {
        "a weight is missing": (head, {name: array for name, array in arrays.items() if name != weights[0]}),
        "a weight too many": (head, arrays | {"generator/extra": np.ones(3, np.float32)}),
        "a weight of another shape": (head, arrays | {weights[0]: np.ones(3, np.float32)}),
        "no release": ({name: value for name, value in head.items() if name != "release"}, arrays),
        "no noise": (head, {name: array for name, array in arrays.items() if "noisy" not in name}),
        "another promise": ({**head, "release": other}, arrays),
        "training no table": ({**head, "training": 3}, arrays),
    }
    for case, (described, parts) in wrong.items():
        Path("wrong").write_bytes(container.pack("dpearl-model", described, parts)[0])
        assert "wrong: is damaged: its parts do not fit together" in dpearl.refuses(*sampling(file="wrong")), case


TRAINING = {
    "no iterations": (training("--iterations", "0"), "the number of iterations must be at least 1"),
    "negative iterations": (training("--iterations", "-5"), "the number of iterations must be at least 1"),
    "iterations no number": (training("--iterations", "many"), "'--iterations'"),
    **{
        f"learning rate {rate}": (training("--learning-rate", rate), "the learning rate must be more than 0 and at most 1")
        for rate in ("0", "-1", "nan", "2", "inf")
    },
    "learning rate no number": (training("--learning-rate", "fast"), "'--learning-rate'"),
    **{
        f"device {name!r}": (training("--device", name), f"device {name!r} is not available here; use auto or cpu")
        for name in ("nonsense", "", "meta", "cuda:99", "cpu:nonsense")
    },
    "negative seed": (training("--seed", "-1"), "the seed must lie between 0 and 2^63 - 1"),
    "giant seed": (training("--seed", str(2**63)), "the seed must lie between 0 and 2^63 - 1"),
    "no threads": (training("--threads", "0"), "'--threads'"),
    "giant number of threads": (training("--threads", str(2**40)), "threads"),
    "unknown critic": (training("--critic", "nonsense"), "'--critic'"),
    "log in a missing folder": (training("--log", "no/log.jsonl"), "no/log.jsonl: cannot be written (No such file or directory"),
    "log is a folder": (training("--log", "folder"), "folder: cannot be written (Is a directory"),
    "log is the output": (training("--log", "out.dpearl"), "out.dpearl: "),
    "log is the release": (training("--log", "release.dpearl"), "release.dpearl: "),
    "log is the checkpoint": (training("--log", "out.dpearl.part"), "out.dpearl.part: "),
    "output exists": (training("-o", "model.dpearl"), "model.dpearl: already exists; choose another name or move it away"),
    "output is the release": (training("-o", "release.dpearl"), "release.dpearl: already exists"),
    "output is a folder": (training("-o", "folder"), "folder: already exists"),
    "output folder missing": (training("-o", "no/out.dpearl"), "no/out.dpearl: folder no does not exist; create it first"),
    "output folder is a file": (training("-o", "s.toml/out"), "s.toml/out: folder s.toml does not exist; create it first"),
    "name too long": (training("-o", "o" * 300), "o: "),
    "no output": (("train", "release.dpearl"), "'--output'"),
    "unknown option": (training("--epochs", "3"), "--epochs"),
}


@pytest.mark.parametrize("case", TRAINING)
def test_training_that_cannot_be_is_refused(dpearl: Dpearl, case: str) -> None:
    arguments, says = TRAINING[case]
    assert says in dpearl.refuses(*arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused(dpearl: Dpearl) -> None:
    told = "device 'cuda' is not available here; use auto or cpu"
    assert told in dpearl.refuses(*training("--device", "cuda"))
    assert told in dpearl.refuses(*synthesis("--device", "cuda"))


SAMPLING = {
    "negative rows": (sampling("-n", "-1"), "the number of rows must be a whole number and not negative"),
    "rows no number": (sampling("-n", "many"), "'--rows'"),
    "rows no whole number": (sampling("-n", "1.5"), "'--rows'"),
    "no rows said": (("sample", "model.dpearl", "-o", "out.csv"), "'--rows'"),
    "negative seed": (sampling("--seed", "-1"), "the seed must lie between 0 and 2^63 - 1"),
    "giant seed": (sampling("--seed", str(2**63)), "the seed must lie between 0 and 2^63 - 1"),
    "unknown column": (sampling("--where", "c=z"), "where: there is no column 'c'"),
    "no column": (sampling("--where", "=x"), "where: there is no column ''"),
    "unknown level": (sampling("--where", "b=z"), "where: 'b' is never 'z'; its levels are x, y"),
    "level in capitals": (sampling("--where", "b=X"), "where: 'b' is never 'X'; its levels are x, y"),
    "never missing": (sampling("--where", "b="), "where: 'b' is never ''; its levels are x, y"),
    "out of bounds": (sampling("--where", "a=99"), "where: 'a' is never '99'; it lies between 0 and 10"),
    "text for a number": (sampling("--where", "a=ten"), "where: 'a' is never 'ten'; it lies between 0 and 10"),
    "nothing for a number": (sampling("--where", "a=nan"), "where: 'a' is never 'nan'; it lies between 0 and 10"),
    "not UTF-8": (sampling("--where", "b=\udcff"), "where: 'b' is never "),
    "NUL": (sampling("--where", "b=\0"), "where: 'b' is never "),
    "no equals sign": (sampling("--where", "b"), "--where 'b': write column=value"),
    "the same twice": (sampling("--where", "b=x", "--where", "b=x"), "where: 'b' is given twice"),
    "two values": (sampling("--where", "b=x", "--where", "b=y"), "where: 'b' is given twice"),
    "picture as condition": (
        sampling("--where", "image=1", "-o", "out.npz", file="pictures-model.dpearl"),
        "where: 'image' is an image; give a column with values that can be named",
    ),
    "unknown suffix": (sampling("-o", "out.xlsx"), "out.xlsx: unknown kind of file; use .csv, .parquet, .npz, .png"),
    "no suffix": (sampling("-o", "out"), "out: unknown kind of file; use .csv, .parquet, .npz, .png"),
    "grid of a table": (sampling("-o", "out.png"), "out.png: a grid needs exactly one column of pictures; use .csv"),
    "CSV of pictures": (sampling(file="pictures-model.dpearl"), "out.csv: a CSV cannot hold the pictures of 'image'; use .npz"),
    **{
        f"grid of {rows}": (
            sampling("-n", str(rows), "-o", "out.png", file="pictures-model.dpearl"),
            "out.png: a grid shows 1 to 10,000 pictures; choose -n so, or use .npz",
        )
        for rows in (0, 10_001, 10**18)
    },
    "output exists": (sampling("-o", "good.csv"), "good.csv: already exists; choose another name or move it away"),
    "output folder missing": (sampling("-o", "no/out.csv"), "no/out.csv: folder no does not exist; create it first"),
    "name too long": (sampling("-o", "o" * 300 + ".csv"), "o.csv: "),
}


@pytest.mark.parametrize("case", SAMPLING)
def test_rows_that_cannot_be_sampled_are_refused(dpearl: Dpearl, case: str) -> None:
    arguments, says = SAMPLING[case]
    assert says in dpearl.refuses(*arguments)


def test_no_rows_are_an_empty_file_with_a_header(dpearl: Dpearl) -> None:
    for file in ("out.csv", "out.parquet", "out.npz"):
        dpearl.works(*sampling("-n", "0", "-o", file))
    assert Path("out.csv").read_text() == '"a","b"\n'
    empty = parquet.read_table("out.parquet")
    assert (len(empty), empty.column_names) == (0, ["a", "b"])
    with np.load("out.npz") as arrays:
        assert {name: arrays[name].shape for name in arrays} == {"a": (0,), "b": (0,)}
    dpearl.works(*sampling("-n", "0", "-o", "pictures.npz", file="pictures-model.dpearl"))
    with np.load("pictures.npz") as arrays:
        assert arrays["image"].shape == (0, 4, 4)
    dpearl.works(*synthesis("-n", "0", "-o", "none.csv"))
    assert Path("none.csv").read_text() == '"a","b"\n'


SYNTHESIS = {
    "partial sums": (synthesis(data=("sums",)), "synth takes data; release partial sums first, then train and sample"),
    "partial sums and data": (synthesis(data=("sums", "good.csv")), "partial sums and data cannot be released together"),
    "a release as data": (synthesis(data=("release.dpearl",)), "release.dpearl: unknown kind of file; use .csv"),
    "no data": (synthesis(data=("no.csv",)), "no.csv: no such file or folder"),
    "no schema said": (("synth", "good.csv", "--epsilon", "1", "-n", "3", "-o", "out.csv"), "'--schema'"),
    "no schema": (synthesis("--schema", "no.toml"), "no.toml: no such schema file; `dpearl schema DATA -o no.toml` drafts one"),
    "unknown recipe": (synthesis("--recipe", "pie"), "unknown recipe 'pie'; use auto or paper"),
    "epsilon 0": (synthesis("--epsilon", "0"), "epsilon must be a positive"),
    "k = 0": (synthesis("-k", "0"), "frequencies k must lie between 1 and"),
    "negative rows": (synthesis("-n", "-1"), "the number of rows must be a whole number and not negative"),
    "rows no number": (synthesis("-n", "many"), "'--rows'"),
    "no iterations": (synthesis("--iterations", "0"), "the number of iterations must be at least 1"),
    "negative iterations": (synthesis("--iterations", "-5"), "the number of iterations must be at least 1"),
    "unknown device": (synthesis("--device", "nonsense"), "device 'nonsense' is not available here; use auto or cpu"),
    "negative seed": (synthesis("--seed", "-1"), "the seed must lie between 0 and 2^63 - 1"),
    "giant seed": (synthesis("--seed", str(2**63)), "the seed must lie between 0 and 2^63 - 1"),
    "no threads": (synthesis("--threads", "0"), "'--threads'"),
    "giant number of threads": (synthesis("--threads", str(2**40)), "threads"),
    "unknown suffix": (synthesis("-o", "out.xlsx"), "out.xlsx: unknown kind of file; use .csv, .parquet, .npz, .png"),
    "grid of a table": (synthesis("-o", "out.png"), "out.png: a grid needs exactly one column of pictures"),
    "output folder missing": (synthesis("-o", "no/out.csv"), "no/out.csv: folder no does not exist; create it first"),
    "ledger folder missing": (synthesis("--ledger", "no/l"), "no/l: folder no does not exist; create it first"),
    "name too long for the release": (synthesis("-o", "o" * 250 + ".csv"), ": cannot be written (File name too long)"),
    **{
        f"ledger is {name}": (synthesis("--ledger", name), "is both output and ledger; give two names")
        for name in ("out.csv", "out.release.dpearl", "out.model.dpearl", "out.model.dpearl.part", "./out.csv")
    },
}


@pytest.mark.parametrize("case", SYNTHESIS)
def test_synthesis_that_cannot_be_is_refused_before_anything_is_charged(dpearl: Dpearl, case: str) -> None:
    arguments, says = SYNTHESIS[case]
    assert says in dpearl.refuses(*arguments)


@pytest.mark.parametrize("name", ["out.csv", "out.release.dpearl", "out.model.dpearl", "out.model.dpearl.part"])
def test_synthesis_replaces_nothing_and_charges_nothing_where_an_output_is_in_the_way(dpearl: Dpearl, name: str) -> None:
    shutil.copy("checkpoint.part", name)
    assert f"{name}: " in dpearl.refuses(*synthesis())


def test_synthesis_stops_where_the_ledger_does_not_cover_it(dpearl: Dpearl) -> None:
    dpearl.works("ledger", "l", "--epsilon", "1")
    assert "l: budget exceeded: " in dpearl.refuses(*synthesis())


DEMO = {
    "folder is a file": (("demo", "s.toml"), "s.toml: cannot be made a folder"),
    "folder below a file": (("demo", "s.toml/demo"), "s.toml/demo: cannot be made a folder"),
    "no iterations": (("demo", "folder", "--iterations", "0"), "the number of iterations must be at least 1"),
    "iterations no number": (("demo", "folder", "--iterations", "many"), "'--iterations'"),
}


@pytest.mark.parametrize("case", DEMO)
def test_a_demo_that_cannot_be_is_refused_before_anything_is_charged(dpearl: Dpearl, case: str) -> None:
    arguments, says = DEMO[case]
    assert says in dpearl.refuses(*arguments)


@pytest.mark.parametrize(
    "name",
    [
        "adult.dpearl",
        "model.dpearl",
        "model.dpearl.part",
        "synthetic.csv",
        "histograms.png",
        "report.html",
        "statement.txt",
        "schema.toml",
    ],
)
def test_a_demo_replaces_nothing(dpearl: Dpearl, name: str) -> None:
    shutil.copy("checkpoint.part", f"folder/{name}")
    assert f"folder/{name}: " in dpearl.refuses("demo", "folder", *SHORT)


@contextmanager
def room(size: int) -> Iterator[None]:
    """A disk on which no file grows beyond this size (Python ignores the signal, so that writing fails)."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("file", ["out.csv", "out.parquet", "out.npz"])
def test_sampling_onto_a_full_disk_leaves_nothing(dpearl: Dpearl, file: str) -> None:
    with room(1000):
        assert f"{file}: cannot be written (File too large)" in dpearl.refuses(*sampling("-n", "20000", "-o", file))
        told = dpearl.refuses(*sampling("-n", "2000", "-o", "out.png", file="pictures-model.dpearl"))
    assert "out.png: cannot be written (File too large)" in told


def test_training_onto_a_full_disk_leaves_nothing_and_says_so(dpearl: Dpearl, monkeypatch: pytest.MonkeyPatch) -> None:
    with room(10_000):
        assert "out.dpearl: cannot be written (File too large)" in dpearl.refuses(*training())
        monkeypatch.setattr(train, "_EVERY", -1.0)
        assert "out.dpearl.part: cannot be written (File too large)" in dpearl.refuses(*training())


def test_training_whose_model_does_not_fit_on_the_disk_keeps_its_checkpoint(dpearl: Dpearl) -> None:
    """Hours of work are not lost because the last file could not be written."""
    made = load_release("release.dpearl")
    with pytest.raises(KeyboardInterrupt):
        fit(made, short(made), checkpoint="out.dpearl.part", stop=lambda: True)
    with room(10_000):
        assert "out.dpearl: cannot be written (File too large)" in dpearl.refuses(*training())
    dpearl.works(*training())
    assert not Path("out.dpearl.part").exists()


def test_a_log_that_the_disk_has_no_room_for_is_a_mistake_told_in_one_line(dpearl: Dpearl) -> None:
    Path("log").touch()
    with room(0):
        assert "log: cannot be written (File too large)" in dpearl.refuses(*training("--log", "log"))


def test_synthesis_onto_a_full_disk_says_what_was_charged_and_what_is_kept(dpearl: Dpearl) -> None:
    before = set(Path.cwd().iterdir())
    with room(2000):
        code, out, err = dpearl.run(*synthesis())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("dpearl: out.release.dpearl: cannot be written (File too large); l was charged all the same")
    assert {path.name for path in set(Path.cwd().iterdir()) - before} == {"l"}
    with room(20_000):
        code, out, err = dpearl.run(*synthesis("--ledger", "m", "-o", "more.csv"))
    assert (code, out, err.count("\n"), SECRET in err) == (2, "", 1, False)
    assert err.startswith("dpearl: more.model.dpearl: cannot be written (File too large)")
    assert "dpearl train more.release.dpearl" in err, "what was paid for is kept, and the next step is said"
    assert {path.name for path in set(Path.cwd().iterdir()) - before} == {"l", "m", "more.release.dpearl"}
    assert load_release("more.release.dpearl").epsilon <= 99
    assert [len(read_ledger(name).charges) for name in "lm"] == [1, 1]


SEVERAL = """
import contextlib, io, json, sys
from dpearl import cli
told = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["dpearl", *arguments]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
        code = cli._run()
    told.append([code, err.getvalue()])
print(json.dumps(told))
"""


def several(dpearl: Dpearl, before: str, *commands: tuple[str, ...]) -> list[tuple[int, str]]:
    """Commands in a process that first runs some code of its own; files must be the same after as before."""
    found = dpearl._files()
    script = [sys.executable, "-c", before + SEVERAL, json.dumps(commands)]
    told = subprocess.run(script, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert dpearl._files() == found
    return [(code, err) for code, err in json.loads(told.stdout)]


NO_TORCH = {
    "not installed": 'import sys\nsys.modules["torch"] = None\n',
    "cannot be imported": """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ImportError("torch is not installed here")
sys.meta_path.insert(0, Refuse())
""",
    "breaks on import": """
import pathlib, sys, tempfile
folder = tempfile.TemporaryDirectory()
pathlib.Path(folder.name, "torch.py").write_text("raise OSError('libtorch_cpu.so: no such file')")
sys.path.insert(0, folder.name)
""",
}


@pytest.mark.parametrize("case", NO_TORCH)
def test_where_torch_is_missing_nothing_is_charged_and_what_to_install_is_said(dpearl: Dpearl, case: str) -> None:
    commands = training(), sampling(), synthesis(), ("demo", "folder", *SHORT)
    *refused, inspected = several(dpearl, NO_TORCH[case], *commands, ("inspect", "model.dpearl"))
    for command, (code, err) in zip(commands, refused, strict=True):
        assert (code, err.count("\n"), err[:8]) == (2, 1, "dpearl: "), (command[0], err)
        assert "torch" in err
        assert "pip install 'dpearl[train]'" in err
    assert inspected == (0, "Next: dpearl sample model.dpearl -n 1000 -o synthetic.csv\n"), "a model's statement needs no torch"
    assert not list(Path("folder").iterdir())


def test_where_matplotlib_is_missing_the_demo_says_what_to_install(dpearl: Dpearl) -> None:
    ((code, err),) = several(dpearl, 'import sys\nsys.modules["matplotlib"] = None\n', ("demo", "folder", *SHORT))
    assert (code, err.count("\n"), err[:8]) == (2, 1, "dpearl: "), err
    assert "pip install 'dpearl[train,report]'" in err


AS_ANYBODY = """
import ctypes, os, sys
if os.environ.pop("MAY_ALL", ""):
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: root may write anywhere
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
    os.execv(sys.executable, sys.orig_argv)
if os.access("folder", os.W_OK):
    print("[]")
    sys.exit()
"""


def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_charged(
    dpearl: Dpearl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAY_ALL", "1" if os.geteuid() == 0 else "")
    commands = (
        training("-o", "folder/out.dpearl"),
        sampling("-o", "folder/out.csv"),
        synthesis("-o", "folder/out.csv"),
        synthesis("--ledger", "folder/l"),
        training("--log", "folder/log"),
        ("demo", "folder", *SHORT),
        ("demo", "folder/demo", *SHORT),
    )
    Path("folder").chmod(0o555)
    try:
        told = several(dpearl, AS_ANYBODY, *commands)
    finally:
        Path("folder").chmod(0o755)
    if not told:
        pytest.skip("whoever runs this may write to a read-only folder")
    for command, (code, err) in zip(commands, told, strict=True):
        assert (code, err.count("\n"), err[:15]) == (2, 1, "dpearl: folder/"), (command, err)
        assert "cannot be" in err


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs a folder that takes no files, not even root's")
def test_a_folder_that_takes_no_files_is_found_out_before_anything_is_charged(dpearl: Dpearl) -> None:
    for arguments in (training("-o", "/proc/out.dpearl"), sampling("-o", "/proc/out.csv"), synthesis("-o", "/proc/out.csv")):
        assert "/proc/out." in dpearl.refuses(*arguments)


def test_the_installed_commands_say_the_same(dpearl: Dpearl) -> None:
    command = [str(Path(sys.executable).with_name("dpearl")), *training(file="sums")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("dpearl: sums: is a PRIVATE partial sum")
    assert "Traceback" not in done.stderr


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the first step of training."""
    advance = train.Training.advance

    def interrupted(self: train.Training) -> None:
        advance(self)
        if self.step == 1:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(train.Training, "advance", interrupted)


@pytest.mark.usefixtures("impatient")
def test_training_that_is_stopped_says_what_is_kept_and_goes_on(dpearl: Dpearl) -> None:
    code, out, err = dpearl.run(*training())
    assert (code, out, err.count("\n")) == (130, "", 1)
    assert err.startswith("dpearl: interrupted; ")
    assert "out.dpearl.part keeps what was trained" in err
    assert "no file was written" not in err
    dpearl.works(*training())
    assert not Path("out.dpearl.part").exists()


@pytest.mark.usefixtures("impatient")
def test_synthesis_that_is_stopped_in_training_says_how_to_go_on_without_another_charge(dpearl: Dpearl) -> None:
    code, out, err = dpearl.run(*synthesis())
    assert (code, out, err.count("\n")) == (130, "", 1)
    assert "no file was written" not in err
    assert "dpearl train out.release.dpearl -o out.model.dpearl" in err
    dpearl.works("train", "out.release.dpearl", "-o", "out.model.dpearl", *SHORT)
    assert len(read_ledger("l").charges) == 1
