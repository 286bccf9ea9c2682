"""Signatures: good ones hold, everything else is refused in one line, and openssl agrees."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpearl import RECIPES, Budget, Offer, container, fit, load_release, release_rows, save_release, save_synthesizer
from dpearl.design import Scale
from dpearl.errors import DpearlError, FileError, UsageError
from dpearl.owner import recipe_with
from dpearl.release import RELEASE
from dpearl.schema import parse_schema
from dpearl.settings import settings_for
from dpearl.sign import new_key, sign, verify
from test_bad_input import Dpearl

SCHEMA = parse_schema({"columns": {"x": {"kind": "number", "lower": 0, "upper": 1}}})
TINY = recipe_with(RECIPES["auto"], None, Scale.PUBLIC, 1)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release and its model, signed, with the owner's keys and a stranger's."""
    folder = tmp_path_factory.mktemp("kept")
    made = release_rows(pa.table({"x": np.linspace(0, 1, 2000)}), Offer(SCHEMA, TINY, Budget(1.0, 1e-5)))
    save_release(made, folder / "r.dpearl")
    save_synthesizer(fit(made, replace(settings_for(made.embedding.design), iterations=1), threads=1), folder / "m.dpearl")
    for name in ("owner", "stranger"):
        new_key(folder / f"{name}.pem")
    for name in ("r", "m"):
        sign(folder / f"{name}.dpearl", folder / "owner.pem", folder / f"{name}.dpearl.sig")
    return folder


@pytest.fixture
def dpearl(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Dpearl:
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Dpearl(tmp_path, monkeypatch, capsys)


VERIFY = ("verify", "r.dpearl", "--public-key", "owner.pub.pem")


def der_digest(public: str) -> str:
    der = subprocess.run(["openssl", "pkey", "-pubin", "-in", public, "-outform", "DER"], capture_output=True, check=True).stdout
    return hashlib.sha256(der).hexdigest()


@pytest.mark.parametrize("name", ["r.dpearl", "m.dpearl"])
def test_a_good_signature_names_its_key_and_the_recomputed_epsilon(dpearl: Dpearl, name: str) -> None:
    told = dpearl.works("verify", name, "--signature", f"{name}.sig", "--public-key", "owner.pub.pem")
    key = json.loads(Path(f"{name}.sig").read_text())["key"]
    assert f"Good signature by the key {key}." in told
    assert f"epsilon {load_release('r.dpearl').epsilon:.6f} at delta 1e-05" in told
    assert dpearl.works("verify", name, "--public-key", "owner.pub.pem") == told, "FILE.sig is where it is looked for"


def test_without_a_key_the_accounting_alone_is_checked_and_it_says_so(dpearl: Dpearl) -> None:
    told = dpearl.works("verify", "r.dpearl")
    assert "recomputed from its own numbers; stated 1" in told
    assert "who made this file, and whether its noise was drawn, is not checked" in told
    assert "signature" not in told


def test_keys_are_made_and_used_from_a_shell(dpearl: Dpearl) -> None:
    dpearl.works("sign", "--new-key", "mine.pem")
    assert stat.S_IMODE(Path("mine.pem").stat().st_mode) == 0o600
    dpearl.works("sign", "r.dpearl", "--key", "mine.pem", "-o", "mine.sig")
    dpearl.works("verify", "r.dpearl", "--signature", "mine.sig", "--public-key", "mine.pub.pem")
    assert "mine.pem: already exists" in dpearl.refuses("sign", "--new-key", "mine.pem")
    Path("mine.pem").rename("kept.pem")
    assert "mine.pub.pem: already exists" in dpearl.refuses("sign", "--new-key", "mine.pem"), "both or neither"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_openssl_makes_keys_that_sign_and_checks_what_was_signed(dpearl: Dpearl) -> None:
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    openssl("genpkey", "-algorithm", "ed25519", "-out", "theirs.pem")
    openssl("pkey", "-in", "theirs.pem", "-pubout", "-out", "theirs.pub.pem")
    Path("theirs.pem").chmod(0o600)
    dpearl.works("sign", "r.dpearl", "--key", "theirs.pem", "-o", "theirs.sig")
    assert der_digest("theirs.pub.pem") in dpearl.works(
        "verify", "r.dpearl", "--signature", "theirs.sig", "--public-key", "theirs.pub.pem"
    )
    told = json.loads(Path("theirs.sig").read_text())  # what the docstring says is enough for a second reader
    Path("raw").write_bytes(bytes.fromhex(told.pop("signature")))
    Path("message").write_text(json.dumps(told, sort_keys=True, separators=(",", ":")))
    assert told["sha256"] == hashlib.sha256(Path("r.dpearl").read_bytes()).hexdigest()
    openssl("pkeyutl", "-verify", "-pubin", "-inkey", "theirs.pub.pem", "-rawin", "-in", "message", "-sigfile", "raw")


def rewritten(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> None:
    """The release as somebody leaves it who knows the format: its digest is right again."""
    meta, arrays = container.read("r.dpearl", RELEASE)
    change(meta, arrays)
    Path("r.dpearl").write_bytes(container.pack(RELEASE, meta, arrays)[0])


FORGERIES: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "sums that were never noised": lambda meta, arrays: arrays.update({"embedding/noisy/count": np.array([12345])}),
    "more noise claimed than drawn": lambda meta, arrays: meta["stages"][0]["sigmas"].update(count=10**9),
    "a larger guarantee, with the noise that it would take": lambda meta, arrays: (
        meta["statement"].update(epsilon=0.5),
        meta["stages"][0]["sigmas"].update(dict.fromkeys(meta["stages"][0]["sigmas"], 10**9)),
    ),
    "another release of the owner": lambda meta, arrays: meta.update(plan="0" * 64),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_a_forger_with_a_right_digest_can_do_is_told_by_the_signature_alone(dpearl: Dpearl, forgery: str) -> None:
    rewritten(FORGERIES[forgery])
    dpearl.works("verify", "r.dpearl")
    assert "r.dpearl: is not the file that was signed: its bytes differ" in dpearl.refuses(*VERIFY)


def test_less_noise_than_stated_is_refused_whoever_signed_it(dpearl: Dpearl) -> None:
    rewritten(lambda meta, arrays: meta["statement"].update(epsilon=0.5))
    assert "its noise does not support the epsilon it states" in dpearl.refuses("verify", "r.dpearl")
    Path("r.dpearl.sig").unlink()
    assert "its noise does not support the epsilon it states" in dpearl.refuses("sign", "r.dpearl", "--key", "owner.pem")


def resigned(**changes: Any) -> bytes:
    return json.dumps({**json.loads(Path("r.dpearl.sig").read_text()), **changes}, sort_keys=True, separators=(",", ":")).encode()


BAD_SIGNATURES: dict[str, tuple[Callable[[], bytes], str]] = {
    "of a model": (lambda: Path("m.dpearl.sig").read_bytes(), "r.dpearl: is not the file that was signed"),
    "moved to another file": (lambda: resigned(sha256="0" * 64) + b"\n", "is not a signature of that key"),
    "moved to another kind": (lambda: resigned(file="dpearl-model") + b"\n", "is not a signature of that key"),
    "one bit off": (
        lambda: resigned(signature=f"{int(json.loads(Path('r.dpearl.sig').read_text())['signature'], 16) ^ 1:0128x}") + b"\n",
        "is not a signature of that key",
    ),
    "too short": (lambda: resigned(signature="00") + b"\n", "is not a signature of that key"),
    "by a stranger": (lambda: resigned(key="0" * 64) + b"\n", "was made with another key (000"),
    "another spelling": (lambda: resigned(), "is not a signature file, or is damaged"),
    "a key twice": (lambda: b'{"version":1,' + resigned()[1:] + b"\n", "is not a signature file, or is damaged"),
    "a key more": (lambda: resigned(more=1) + b"\n", "is not a signature file, or is damaged"),
    "deep nesting": (lambda: b"[" * 60_000, "is not a signature file, or is damaged"),
    "a huge number": (lambda: b"9" * 60_000, "is not a signature file, or is damaged"),
    "not a number": (lambda: b"NaN\n", "is not a signature file, or is damaged"),
    "empty": (lambda: b"", "is not a signature file, or is damaged"),
    "no hex": (lambda: resigned(signature="zz") + b"\n", "is not a signature file, or is damaged"),
    "no text": (lambda: resigned(signature=3) + b"\n", "is not a signature file, or is damaged"),
    "newer": (lambda: resigned(version=2) + b"\n", "is no signature file that this dpearl knows; upgrade"),
    "of something else": (lambda: resigned(format="other") + b"\n", "is no signature file that this dpearl knows"),
    "gigantic": (lambda: b" " * 2**20, "is larger than any signature file"),
}


@pytest.mark.parametrize("case", BAD_SIGNATURES)
def test_a_bad_signature_is_refused(dpearl: Dpearl, case: str) -> None:
    make, says = BAD_SIGNATURES[case]
    Path("r.dpearl.sig").write_bytes(make())
    assert says in dpearl.refuses(*VERIFY)


def test_every_flipped_bit_of_file_or_signature_is_refused(dpearl: Dpearl) -> None:
    for name, step in (("r.dpearl.sig", 7), ("r.dpearl", 101)):
        whole = Path(name).read_bytes()
        for bit in range(0, 8 * len(whole), step):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            Path(name).write_bytes(flipped)
            with pytest.raises(FileError):
                verify("r.dpearl", "r.dpearl.sig", "owner.pub.pem")
        Path(name).write_bytes(whole)
    dpearl.works(*VERIFY)


BAD_USE: dict[str, tuple[tuple[str, ...], str]] = {
    "another public key": ((*VERIFY[:3], "stranger.pub.pem"), "was made with another key"),
    "a private key as public": ((*VERIFY[:3], "owner.pem"), "owner.pem: holds no public key"),
    "no public key there": ((*VERIFY[:3], "no.pem"), "no.pem: no such public key file"),
    "signature without a key": (("verify", "r.dpearl", "--signature", "r.dpearl.sig"), "is checked against --public-key"),
    "no signature there": ((*VERIFY, "--signature", "no.sig"), "no.sig: no such signature file"),
    "not ours": (("verify", "owner.pem"), "owner.pem: is not a dpearl file"),
    "nothing to sign": (("sign", "--key", "owner.pem"), "give a release or model and --key"),
    "no key to sign with": (("sign", "r.dpearl"), "give a release or model and --key"),
    "a public key to sign with": (("sign", "r.dpearl", "--key", "closed.pem", "-o", "x"), "closed.pem: holds no private key"),
    "both at once": (("sign", "r.dpearl", "--new-key", "x.pem"), "--new-key goes alone"),
    "signature in the way": (("sign", "r.dpearl", "--key", "owner.pem"), "r.dpearl.sig: already exists"),
    "signing what is not ours": (("sign", "owner.pem", "--key", "owner.pem"), "owner.pem: is not a dpearl file"),
    "a key that others may read": (("sign", "r.dpearl", "--key", "open.pem", "-o", "x"), "open.pem: others may read"),
    "an encrypted key": (("sign", "r.dpearl", "--key", "locked.pem", "-o", "x"), "locked.pem: is encrypted"),
    "a key of another kind": (("sign", "r.dpearl", "--key", "curve.pem", "-o", "x"), "curve.pem: is no Ed25519 key"),
}


@pytest.fixture
def odd_keys(dpearl: Dpearl) -> None:
    from cryptography.hazmat.primitives import serialization as pem
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    locked = ed25519.Ed25519PrivateKey.generate()
    form = (pem.Encoding.PEM, pem.PrivateFormat.PKCS8)
    Path("locked.pem").write_bytes(locked.private_bytes(*form, pem.BestAvailableEncryption(b"secret")))
    Path("curve.pem").write_bytes(ec.generate_private_key(ec.SECP256R1()).private_bytes(*form, pem.NoEncryption()))
    shutil.copy("owner.pub.pem", "closed.pem")
    shutil.copy("owner.pem", "open.pem")
    for name, mode in {"locked": 0o600, "curve": 0o600, "closed": 0o600, "open": 0o640}.items():
        Path(f"{name}.pem").chmod(mode)


@pytest.mark.usefixtures("odd_keys")
@pytest.mark.parametrize("case", BAD_USE)
def test_what_cannot_be_signed_or_verified_is_told_in_one_line(dpearl: Dpearl, case: str) -> None:
    arguments, says = BAD_USE[case]
    assert says in dpearl.refuses(*arguments)


def test_a_partial_sum_is_never_signed(dpearl: Dpearl) -> None:
    Path("p").write_bytes(container.pack("dpearl-partial", {}, {})[0])
    assert "p: is a PRIVATE partial sum" in dpearl.refuses("sign", "p", "--key", "owner.pem")
    with pytest.raises(DpearlError):
        sign("p", "owner.pem", "p.sig")


def test_where_cryptography_is_missing_what_to_install_is_said(dpearl: Dpearl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert "pip install 'dpearl[sign]'" in dpearl.refuses(*VERIFY)
    assert "pip install 'dpearl[sign]'" in dpearl.refuses("sign", "--new-key", "x.pem")
    dpearl.works("verify", "r.dpearl")
    with pytest.raises(UsageError):
        sign("r.dpearl", "owner.pem", "x")
