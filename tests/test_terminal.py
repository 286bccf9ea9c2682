"""The command line in a terminal, in a pipe and under a shell's completion: light, quiet when asked, helpful when misspelt."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest

from dpearl import cli
from dpearl.cli import say, show
from dpearl.errors import meant
from dpearl.ledger import read_ledger, set_budget
from dpearl.release import load_release
from dpearl.statement import facts

TOML = """
label = "b"
[columns.a]
kind = "number"
lower = 0
upper = 100
step = 1
[columns.b]
kind = "category"
levels = ["red", "blue"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    chance = np.random.default_rng(0)
    csv.write_csv(pa.table({"a": chance.integers(0, 101, 2000), "b": chance.choice(["red", "blue"], 2000)}), "rows.csv")
    Path("s.toml").write_text(TOML)
    return tmp_path


def run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """A command in this process, as the program runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", shlex.split(line))
        code = cli._run()
    return code, *capsys.readouterr()


def start(script: str, **variables: str) -> str:
    """What another interpreter prints."""
    known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    done = subprocess.run([sys.executable, "-c", script], env=known | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


PROGRAM = "import sys; sys.argv = ['dpearl', {arguments}]; from dpearl.cli import main; main()"


# Light


HEAVY = {
    *("torch", "numpy", "scipy", "pyarrow", "pydantic", "rich", "flint", "narwhals", "PIL", "matplotlib", "sklearn", "pandas"),
    "safetensors",
}


def test_help_and_import_load_nothing_heavy() -> None:
    """The time that this takes is measured by `make bench`."""
    script = """
import json, sys
import dpearl
before = sorted(sys.modules)
from dpearl import cli
sys.argv = ["dpearl", "--help"]
code = cli._run()
print(json.dumps([before, sorted(sys.modules), code]))
"""
    told = start(script).splitlines()
    imported, loaded, code = json.loads(told[-1])
    assert code == 0
    assert told[0].startswith("Usage: dpearl ")
    assert {name for name in imported if name.startswith("dpearl")} == {"dpearl"}
    assert {name for name in loaded if name.startswith("dpearl.")} == {
        f"dpearl.{own}" for own in ("cli", "cli.app", "cli.say", "errors", "letters")
    }
    assert not HEAVY & {name.partition(".")[0] for name in loaded}


# Help


def test_the_list_of_commands_says_what_each_command_says_of_itself() -> None:
    for name, (_, line) in cli.VERBS.items():
        command = cli.loaded(name)
        assert command.help is not None
        assert command.help.splitlines()[0] == line
        assert len(line) <= 66, "it fits beside its name in 80 columns"


def examples() -> Iterator[tuple[str, str]]:
    for name in cli.VERBS:
        epilog = cli.loaded(name).epilog
        assert epilog is not None, name
        for line in epilog.splitlines()[2:]:
            yield name, line.strip()


def test_every_command_has_examples_that_it_understands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each names its own command, parses, and fits a line of help."""
    found = list(examples())
    assert {name for name, _ in found} == cli.VERBS.keys()
    for name, line in found:
        program, verb, *arguments = shlex.split(line.split(" | ")[0], comments=True)
        assert (program, verb) == ("dpearl", name)
        assert len(line) <= 96, line
        cli.loaded(name).make_context(name, arguments)
    say.hush(False)


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_help_keeps_to_the_width_of_the_terminal(columns: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for name in cli.VERBS:
        code, out, _ = run(f"dpearl {name} -h", capsys)
        told, _, shown = out.partition("Examples:")
        assert code == 0
        assert shown.strip().startswith(f"dpearl {name}")
        assert max(map(len, told.splitlines())) <= min(int(columns), 100)


# Completion


def completed(line: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What bash would offer at the end of a line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["dpearl"])
        patch.setenv("_DPEARL_COMPLETE", "complete_bash")
        patch.setenv("COMP_WORDS", line)
        patch.setenv("COMP_CWORD", str(len(line.split()) - (not line.endswith(" "))))
        with pytest.raises(SystemExit) as ended:
            cli._run()
    assert ended.value.code == 0
    return capsys.readouterr().out.split()


def test_the_shell_completes_commands_options_and_choices(capsys: pytest.CaptureFixture[str]) -> None:
    assert completed("dpearl re", capsys) == ["release", "report"]
    assert set(completed("dpearl ", capsys)) == cli.VERBS.keys()
    assert completed("dpearl release --ep", capsys) == ["--epsilon"]
    assert completed("dpearl release --relation ", capsys) == ["add-remove", "replace-one"]
    assert completed("dpearl plan --recipe p", capsys) == ["paper"]


def test_the_shell_is_told_how_to_ask() -> None:
    told = start(PROGRAM.format(arguments=""), _DPEARL_COMPLETE="source_bash")
    assert "_DPEARL_COMPLETE=complete_bash" in told
    assert "complete -o default -F _dpearl_completion dpearl" in told


# Near misses

MISSPELT = {
    "dpearl relase": "'release'",
    "dpearl release --epsilom 1": "--epsilon",
    "dpearl plan --schema s.toml --rows 9 --epsilon 1 --recipe papr": "'paper'",
    "dpearl plan --schema kind.toml --rows 9 --epsilon 1": "'number'",
    "dpearl plan --schema key.toml --rows 9 --epsilon 1": "'levels'",
    "dpearl plan --schema step.toml --rows 9 --epsilon 1": "'step'",
    "dpearl plan --schema top.toml --rows 9 --epsilon 1": "'label'",
    "dpearl plan --schema label.toml --rows 9 --epsilon 1": "'b'",
}


@pytest.mark.parametrize("line", MISSPELT)
def test_a_near_miss_is_told_what_was_meant(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("kind.toml").write_text(TOML.replace("number", "numbr"))
    Path("key.toml").write_text(TOML.replace("levels", "level"))
    Path("step.toml").write_text(TOML.replace("step", "stp"))
    Path("top.toml").write_text(TOML.replace("label", "lable"))
    Path("label.toml").write_text(TOML.replace('label = "b"', 'label = "B"'))
    code, out, err = run(line, capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"did you mean {MISSPELT[line]}?" in err


def test_nothing_is_meant_by_what_is_far_from_everything() -> None:
    assert meant("colour", ["age", "income"]) == ""
    assert meant("AGE", ["age", "income"]) == "; did you mean 'age'?"
    assert meant("x", []) == ""


def test_a_choice_is_refused_with_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("dpearl release x --epsilon 1 --engine loca -o y", capsys)
    assert code == 2
    assert (
        err
        == "dpearl: Invalid value for '--engine': 'loca' is not one of 'local', 'dask', 'spark' (see `dpearl release --help`)\n"
    )


# Results, remarks, --json, --quiet


def release_line(more: str = "") -> str:
    return f"dpearl release rows.csv --schema s.toml --epsilon 1 -k 4 --ledger l -o r.dpearl {more}"


def test_results_go_to_stdout_remarks_and_the_next_step_to_stderr(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(release_line(), capsys)
    assert code == 0
    assert out.startswith("PRIVACY STATEMENT")
    assert err.splitlines()[-2:] == ["Written to r.dpearl. Charged to l.", "Next: dpearl train r.dpearl -o model.dpearl"]


def test_quiet_leaves_out_remarks_and_nothing_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(release_line("--quiet"), capsys)[2] == ""
    assert load_release("r.dpearl").mu == read_ledger("l").charges[0].mu
    _, out, err = run("dpearl train r.dpearl -o m.dpearl --iterations 1 --threads 1 -q", capsys)
    assert (out, err) == ("", "")
    assert run("dpearl sample m.dpearl -n 3 -o s.csv -q", capsys)[1:] == ("", "")
    code, _, err = run("dpearl sample m.dpearl -n 3 -o s.csv -q", capsys)
    assert (code, err.count("\n")) == (2, 1), "a mistake is always told"
    assert "Next: dpearl report" in run("dpearl sample m.dpearl -n 3 -o t.csv", capsys)[2], "and the next command speaks again"


def test_what_is_printed_can_be_had_as_json(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpearl.audit.RUNS", 3000)

    def told(line: str) -> Any:
        code, out, _ = run(line, capsys)
        assert code == 0
        return json.loads(out)

    made, opened = told(release_line("--json")), told("dpearl inspect r.dpearl --json")
    assert made == opened == json.loads(json.dumps(facts(load_release("r.dpearl"))))
    book = told("dpearl ledger l --json")
    assert book["charges"][0]["mu"] == made["recomputed"]["mu"]
    assert book["spent"]["epsilon"] == pytest.approx(1, abs=1e-3)
    planned = told("dpearl plan --schema s.toml --rows 200 --epsilon 1 -k 4 --json")
    assert planned["budget"] == {"epsilon": 1.0, "delta": 1e-5}
    assert sum(block["share"] for block in planned["blocks"]) == pytest.approx(1)
    audited = told("dpearl audit --json")
    assert audited["passed"] is True
    assert all(finding["seen"] <= finding["stated"] for finding in audited["findings"])


def test_every_verb_can_be_quiet_and_those_that_print_a_result_speak_json() -> None:
    options = {name: {option for parameter in cli.loaded(name).params for option in parameter.opts} for name in cli.VERBS}
    assert all({"-q", "--quiet", "-h", "--help"} >= {"-q", "--quiet"} <= own for own in options.values())
    speaking = {name for name, own in options.items() if "--json" in own}
    assert speaking == {"synth", "plan", "release", "inspect", "verify", "ledger", "merge", "audit"}


def test_the_next_release_is_one_that_the_ledger_covers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_budget("l", 2.0)
    assert run(release_line(), capsys)[0] == 0
    _, out, err = run("dpearl ledger l", capsys)
    left = float(out.rpartition("up to epsilon ")[2].split(":")[0])
    offered = float(err.partition("--epsilon ")[2].split()[0])
    assert left - 2e-3 < offered <= left
    again = f"dpearl release rows.csv --schema s.toml --epsilon {offered} -k 4 --ledger l -o r2.dpearl"
    assert run(again, capsys)[0] == 0


def test_where_a_ledger_is_spent_nothing_is_left_to_do(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(release_line(), capsys)[0] == 0
    code, out, err = run("dpearl ledger l", capsys)
    assert (code, err) == (0, "")
    assert out.endswith("Nothing worth a release is left.\n")


# Terminals


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Iterator[list[bytes]]:
    """stdout and stderr as a terminal; what was shown is in the list afterwards."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", **variables}.items():
        monkeypatch.setenv(name, value)
    ours, theirs = pty.openpty()
    shown: list[bytes] = []
    with open(theirs, "w", encoding="utf-8", closefd=False) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        yield shown
    monkeypatch.undo()
    os.close(theirs)
    shown.append(_drained(ours))
    os.close(ours)


def _drained(terminal: int) -> bytes:
    """All that was shown: a terminal gives it piece by piece, and an error at its end."""
    pieces = []
    with suppress(OSError):
        while piece := os.read(terminal, 2**16):
            pieces.append(piece)
    return b"".join(pieces)


def bars() -> None:
    with show.progress() as display:
        done = display.stage("embedding", 10)
        done(5)


def test_progress_tells_the_time_left_in_colour_unless_that_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown:
        bars()
    assert b"Embedding" in shown[0]
    assert b"5/10" in shown[0]
    assert b"--:--" in shown[0], "the time left, which nobody knows yet"
    assert b"\x1b[38;5;" in shown[0]
    with terminal(monkeypatch, NO_COLOR="1") as plain:
        bars()
    assert b"Embedding" in plain[0]
    assert b"\x1b[38;5;" not in plain[0]
    say.hush(True)
    with terminal(monkeypatch) as silent:
        bars()
        sys.stderr.write(".")
    say.hush(False)
    assert silent == [b"."]


def test_where_nobody_knows_the_end_the_time_so_far_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown, show.progress() as display:
        display.stage("embedding", None)(1234)
        display.working("reporting")
    told = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown[0]).decode()
    assert re.search(r"Embedding .*1,234 .*00:00", told) or re.search(r"Embedding .*1234/1234", told)
    assert re.search(r"Report .*00:00 so far", told)
    assert "/?" not in told


def widest(text: str) -> int:
    return max(map(len, text.splitlines()))


def test_tables_are_as_wide_as_the_terminal_and_whole_in_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from dpearl.audit import Finding
    from dpearl.neighbours import cases

    found = [Finding(case.unit, "a part with a name that is rather long, as names go" + case.note, 1, 0.5, 0) for case in cases()]
    monkeypatch.delenv("COLUMNS", raising=False)
    show.findings(found)
    assert widest(capsys.readouterr().out) > 100
    monkeypatch.setenv("COLUMNS", "60")
    show.findings(found)
    assert widest(capsys.readouterr().out) <= 60
