"""Nothing calls home: the whole way, from a schema to an audit, opens no socket, and needs no network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = "a,b\n" + "1,x\n2,y\n3,x\n4,x\n5,y\n" * 40

WHOLE_WAY = """
import pathlib, sys

def watch(event, arguments):
    if event.startswith("socket.") or event in ("urllib.Request", "ftplib.connect", "http.client.connect", "smtplib.connect"):
        raise SystemExit(f"SOCKET: {event}")

sys.addaudithook(watch)
from dpearl import audit as auditing, cli

def dpearl(line):
    sys.argv = ["dpearl", *line.split()]
    code = cli._run()
    assert code == 0, (line, code)

dpearl("schema d.csv -o draft.toml")
dpearl("plan --schema s.toml --rows 200 --epsilon 9")
dpearl("release d.csv --schema s.toml --epsilon 9 --ledger l -o r.dpearl")
dpearl("inspect r.dpearl")
dpearl("ledger l")
dpearl("sign --new-key owner.pem")
dpearl("sign r.dpearl --key owner.pem")
dpearl("verify r.dpearl --public-key owner.pub.pem")
dpearl("embed d.csv --schema s.toml -k 4 -o sums")
dpearl("train r.dpearl --iterations 2 -o m.dpearl")
dpearl("sample m.dpearl -n 100 -o made.csv")
dpearl("report m.dpearl --ledger l -o report.html")
dpearl("evaluate --real d.csv --synth made.csv --schema s.toml -o evaluation.html")
auditing.RUNS = 500
dpearl("audit")
print("THE WHOLE WAY")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "d.csv").write_text(ROWS)
    (tmp_path / "s.toml").write_text(
        'label = "b"\n[columns.a]\nkind = "number"\nlower = 0\nupper = 9\nstep = 1\n'
        '[columns.b]\nkind = "category"\nlevels = ["x", "y"]\n'
    )
    return tmp_path


def ran(folder: Path, script: str, *before: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*before, sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)


def _cut_off() -> list[str]:
    """A way to run without any network, where this machine lets us: then native code cannot reach one either."""
    for way in (["unshare", "-n"], ["unshare", "-rn"]):
        if shutil.which("unshare") and subprocess.run([*way, "true"], capture_output=True, check=False).returncode == 0:
            return way
    return []


def test_the_whole_way_touches_no_socket(folder: Path) -> None:
    done = ran(folder, WHOLE_WAY, *_cut_off())
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.endswith("THE WHOLE WAY\n")


@pytest.mark.parametrize("call", ["socket.socket()", "socket.getaddrinfo('localhost', 80)", "socket.gethostbyname('localhost')"])
def test_a_call_would_be_seen(folder: Path, call: str) -> None:
    done = ran(folder, WHOLE_WAY.partition("from dpearl")[0] + f"import socket; {call}")
    assert done.returncode != 0
    assert "SOCKET: socket." in done.stderr
