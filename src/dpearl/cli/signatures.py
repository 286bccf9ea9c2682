"""Commands for trust in files: signatures, and the accounting without data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpearl import sign as signing
from dpearl.cli import say, show
from dpearl.cli.options import AsJson, Quiet, verbs
from dpearl.cli.public_side import fit_kind
from dpearl.errors import UsageError
from dpearl.release import load_release_inside
from dpearl.statement import facts

app = verbs()


@app.command(epilog=say.examples("dpearl sign --new-key owner.pem", "dpearl sign people.dpearl --key owner.pem"))
def sign(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A release or a model.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Private key to sign with: Ed25519, PEM.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Signature to write, never overwritten; FILE.sig by default.")
    ] = None,
    new_key: Annotated[Path | None, typer.Option("--new-key", help="Make a key pair instead: this and NAME.pub.pem.")] = None,
    quiet: Quiet = False,
) -> None:
    """Sign a release or model, or make the keys for it."""
    if new_key is not None:
        if file is not None or key is not None or output is not None:
            raise UsageError("--new-key goes alone; sign in a second step, with --key")
        public, who = signing.new_key(new_key)
        say.note(f"{new_key} signs: keep it secret. Publish {public}, fingerprint {who}")
        say.next_step(f"dpearl sign people.dpearl --key {new_key}")
        return
    if file is None or key is None:
        raise UsageError("give a release or model and --key KEY.pem; `dpearl sign --new-key owner.pem` makes keys")
    fit_kind(file)
    written = output or signature_of(file)
    say.note(f"Written to {written}, signed with the key {signing.sign(file, key, written)}")
    say.next_step(f"publish {file}, {written} and the public key; dpearl verify {file} --public-key KEY checks them")


def signature_of(file: Path) -> Path:
    """Where a signature is kept unless a name is given."""
    return file.with_name(f"{file.name}.sig")


@app.command(epilog=say.examples("dpearl verify people.dpearl", "dpearl verify people.dpearl --public-key owner.pub.pem"))
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A release or a model.")],
    signature: Annotated[Path | None, typer.Option("--signature", help="Its signature; FILE.sig by default.")] = None,
    public_key: Annotated[Path | None, typer.Option("--public-key", help="Public key of who must have signed: PEM.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check a release or model without data, and who signed it."""
    fit_kind(file)
    if public_key is None:
        if signature is not None:
            raise UsageError("a signature is checked against --public-key; get the one that the signer published")
        release, who = load_release_inside(file)[0], None
    else:
        release, who = signing.verify(file, signature or signature_of(file), public_key)
    if as_json:
        show.as_json({"signed_by": who, **facts(release)})
        return
    found = f"epsilon {release.epsilon:.6f} at delta {release.budget.delta:g}, recomputed from its own numbers"
    say.result(f"{file}: {found}; stated {release.budget.epsilon:g}, protecting {release.unit}.")
    if who:
        say.result(f"Good signature by the key {who}.")
    else:
        say.result("No public key was given: who made this file, and whether its noise was drawn, is not checked.")
