"""Commands for trust in files: signatures, and the accounting without data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpearl import sign as signing
from dpearl.cli import show
from dpearl.cli.app import app
from dpearl.cli.public_side import fit_kind
from dpearl.errors import UsageError
from dpearl.release import Release, load_release_inside


@app.command()
def sign(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A release or a model.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Private key to sign with: Ed25519, PEM.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Signature to write, never overwritten; FILE.sig by default.")
    ] = None,
    new_key: Annotated[Path | None, typer.Option("--new-key", help="Make a key pair instead: this and NAME.pub.pem.")] = None,
) -> None:
    """Sign a release or model, or make the keys for it."""
    if new_key is not None:
        if file is not None or key is not None or output is not None:
            raise UsageError("--new-key goes alone; sign in a second step, with --key")
        public, who = signing.new_key(new_key)
        show.note(f"{new_key} signs: keep it secret. Publish {public}, fingerprint {who}")
        return
    if file is None or key is None:
        raise UsageError("give a release or model and --key KEY.pem; `dpearl sign --new-key owner.pem` makes keys")
    fit_kind(file)
    written = output or signature_of(file)
    show.note(f"Written to {written}, signed with the key {signing.sign(file, key, written)}")


def signature_of(file: Path) -> Path:
    """Where a signature is kept unless a name is given."""
    return file.with_name(f"{file.name}.sig")


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A release or a model.")],
    signature: Annotated[Path | None, typer.Option("--signature", help="Its signature; FILE.sig by default.")] = None,
    public_key: Annotated[Path | None, typer.Option("--public-key", help="Public key of who must have signed: PEM.")] = None,
) -> None:
    """Check a release or model: its accounting, recomputed without data, and who signed it."""
    fit_kind(file)
    if public_key is None:
        if signature is not None:
            raise UsageError("a signature is checked against --public-key; get the one that the signer published")
        release, who = load_release_inside(file)[0], None
    else:
        release, who = signing.verify(file, signature or signature_of(file), public_key)
    show.say(f"{file}: {_accounting(release)}")
    if who:
        show.say(f"Good signature by the key {who}.")
    else:
        show.say("No public key was given: who made this file, and whether its noise was drawn, is not checked.")


def _accounting(release: Release) -> str:
    found = f"epsilon {release.epsilon:.6f} at delta {release.budget.delta:g}, recomputed from its own numbers"
    return f"{found}; stated {release.budget.epsilon:g}, protecting {release.unit}."
