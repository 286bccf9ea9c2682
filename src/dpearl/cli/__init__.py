"""The command line: thin, no logic of its own."""

from __future__ import annotations

import io
import os
import sys

from dpearl.cli import judges, owner_side, public_side, show, signatures, sums_side, whole_way
from dpearl.cli.app import app
from dpearl.errors import DpearlError, Interrupted

__all__ = ["app", "judges", "main", "owner_side", "public_side", "signatures", "sums_side", "whole_way"]

_INTERRUPTED = 130
_ORDER = (
    *("synth", "demo", "schema", "plan", "release", "inspect", "sign", "verify", "train", "sample", "report", "evaluate"),
    *("ledger", "embed", "merge", "study", "audit"),
)
app.registered_commands.sort(key=lambda command: _ORDER.index(getattr(command.callback, "__name__", "")))


def main() -> None:
    """Run the command line: 0 fine, 2 the user's mistake in one line, 1 ours."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run())


def _run() -> int:
    try:
        code = app(standalone_mode=False)
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except Interrupted as stopped:
        show.mistake(f"interrupted; {stopped}")
        return _INTERRUPTED
    except DpearlError as error:
        show.mistake(str(error))
        return 2
    except KeyboardInterrupt:
        show.mistake("interrupted; no unfinished file is kept. If a ledger was given, `dpearl ledger` tells what was charged")
        return _INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # nobody listens any more, so nothing is flushed at exit
        return 0
    except Exception as error:
        if hasattr(error, "format_message"):
            where = getattr(getattr(error, "ctx", None), "command_path", "dpearl")
            show.mistake(f"{error.format_message()} (see `{where} --help`)")
            return 2
        if os.environ.get("DPEARL_DEBUG"):
            raise
        show.note(f"dpearl: internal error ({type(error).__name__}); please report it. DPEARL_DEBUG=1 shows where")
        return 1
