"""The command line: thin, no logic of its own."""

from __future__ import annotations

import io
import os
import re
import sys

from dpearl.cli import say
from dpearl.cli.app import VERBS, loaded, program
from dpearl.errors import DpearlError, Interrupted

__all__ = ["VERBS", "loaded", "main", "program"]

_INTERRUPTED = 130
_NO_MEMORY = ("[enforce fail at alloc_cpu.cpp", "can't start new thread")
"""How torch and Python tell of it in a RuntimeError."""

_CHARGED = "If a ledger was given, `dpearl ledger` tells what was charged"


def main() -> None:
    """Run the command line: 0 fine, 2 the user's mistake in one line, 1 ours."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run())


def _run() -> int:
    say.hush(False)
    try:
        code = program().main(prog_name="dpearl", standalone_mode=False)
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except Interrupted as stopped:
        say.mistake(f"interrupted; {stopped}")
        return _INTERRUPTED
    except DpearlError as error:
        say.mistake(str(error))
        return 2
    except KeyboardInterrupt:
        say.mistake(f"interrupted; no unfinished file is kept. {_CHARGED}")
        return _INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # nobody listens any more, so nothing is flushed at exit
        return 0
    except Exception as error:
        if hasattr(error, "format_message"):
            where = getattr(getattr(error, "ctx", None), "command_path", "dpearl")
            say.mistake(f"{_told(error.format_message())} (see `{where} --help`)")
            return 2
        if isinstance(error, MemoryError) or str(error).startswith(_NO_MEMORY):
            say.mistake(f"there is not enough memory for this; free some. No unfinished file is kept. {_CHARGED}")
            return 2
        if os.environ.get("DPEARL_DEBUG"):
            raise
        say.mistake(f"internal error ({type(error).__name__}); please report it. DPEARL_DEBUG=1 shows where")
        return 1


def _told(message: str) -> str:
    """Typer's words in our way of speaking."""
    message = message.replace("Value error, ", "").rstrip(".")
    meant = re.sub(r" \(Possible options: ([^)]*)\)", r"; did you mean \1?", message)
    return re.sub(r"\. Did you mean (.*)\?$", r"; did you mean \1?", meant)
