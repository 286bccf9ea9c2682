"""The command line in forked processes: nothing to load, limits of its own, and a kill at whichever point is wanted.

A server loads everything once and forks for each command. A point is where the outside could see a difference: a name that
is opened for writing, linked, renamed or removed, a folder that is made, a lock, a sync, a pass over the rows. The child finds
its points by itself, through Python's audit events, and kills itself just before the one that it is given.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

EVENTS = {"os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "fcntl.flock"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
KILLED = -signal.SIGKILL
LOADED = (
    *("dpearl.cli.owner_side", "dpearl.cli.sums_side", "dpearl.cli.public_side", "dpearl.synthesizer", "dpearl.train"),
    *("pandas", "torch._dynamo"),  # which Arrow and Adam would load
)


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


class Forks:
    """Commands in processes of their own."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def run(self, folder: Path, *argv: str, **more: Any) -> Done:
        """One command in a folder, and what befalls it: a `kill` at a point, a limit on its `file_size`, bytes of `memory` beyond
        what it has; `every` so many seconds it keeps a checkpoint."""
        return self.together(folder, argv, **more)[0]

    def together(self, folder: Path, *argvs: Sequence[str], **more: Any) -> list[Done]:
        """Commands at once."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps([{"folder": str(folder), "argv": list(argv), **more} for argv in argvs]) + "\n")
        self._server.stdin.flush()
        return [Done(*ended) for ended in json.loads(self._server.stdout.readline())]


@contextmanager
def serving() -> Iterator[Forks]:
    """A server that has loaded dpearl; one thread, so that it can be forked."""
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, __file__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env={**os.environ, **alone}, text=True, **pipes) as server:  # type: ignore[call-overload]
        yield Forks(server)
        server.stdin.close()


def serve() -> None:
    for name in LOADED:
        import_module(name)
    gc.freeze()  # so that children do not copy what they never change
    for line in sys.stdin:
        children = [_child(order) for order in json.loads(line)]
        print(json.dumps([_ended(*child) for child in children]), flush=True)


def _ended(child: int, out: int, err: int) -> tuple[int, str, str]:
    """The code of a child, and what it said: little enough to wait in a pipe."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = []
    for end in (out, err):
        with open(end, encoding="utf-8") as file:
            said.append(file.read())
    return code, said[0], said[1]


def _child(order: dict[str, Any]) -> tuple[int, int, int]:
    out, err = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for number, end in ((1, out[1]), (2, err[1])):
                os.dup2(end, number)
            _act(**order)
        finally:
            os._exit(70)
    for end in (out[1], err[1]):
        os.close(end)
    return child, out[0], err[0]


def _act(
    folder: str,
    argv: list[str],
    kill: int | None = None,
    file_size: int | None = None,
    memory: int | None = None,
    every: float | None = None,
) -> NoReturn:
    """The child: it ends here."""
    from dpearl import cli, train

    os.chdir(folder)
    if file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, resource.RLIM_INFINITY))
    if memory is not None:
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + memory, resource.RLIM_INFINITY))
    if every is not None:
        train._EVERY = every
    if kill is not None:
        _arm(kill)
    sys.argv = ["dpearl", *argv]
    code = cli._run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _arm(kill: int) -> None:
    """From now on, a kill at this point."""
    from dpearl.cli import show

    left = kill

    def point() -> None:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING):
            point()

    def first(function: Callable[..., Any]) -> Callable[..., Any]:
        def after(*arguments: Any) -> Any:
            point()
            return function(*arguments)

        return after

    sys.addaudithook(heard)
    os.fsync = first(os.fsync)
    show.Bars.stage = first(show.Bars.stage)  # type: ignore[method-assign]


if __name__ == "__main__":
    serve()
