"""Who vouches for a file: detached Ed25519 signatures (RFC 8032) of releases and models.

A digest shows damage; whoever rewrites a file can write a new digest. The accounting shows a promise that the stated noise does
not keep; it cannot show whether that noise was drawn. That the owner stands behind just these bytes is what a signature says.

A signature file is one line of canonical JSON, ended by a line feed:

    {"file":KIND,"format":"dpearl-signature","key":KEY,"sha256":FILE,"signature":SIGNATURE,"version":1}

    KIND        the signed file's `format`: dpearl-release or dpearl-model
    KEY         hex SHA-256 of the signer's public key in DER (SubjectPublicKeyInfo), its fingerprint
    FILE        hex SHA-256 of all bytes of the signed file
    SIGNATURE   hex, 64 bytes: Ed25519 over the same line without `signature`, its key and its line feed:
                {"file":KIND,"format":"dpearl-signature","key":KEY,"sha256":FILE,"version":1}

What is signed names format, version and kind, so that it can be taken for nothing else. Keys are PEM files, PKCS #8 for the
private and SubjectPublicKeyInfo for the public one, as `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` make them.
"""

from __future__ import annotations

import hashlib
import json
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpearl import container
from dpearl.canonical import canonical
from dpearl.errors import FileError, UsageError
from dpearl.release import MODEL, RELEASE, Release, load_release_inside

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_FORMAT, _VERSION = "dpearl-signature", 1
_LARGEST = 2**16
"""Bytes of a key or signature file; those of ours have a few hundred."""


@dataclass(frozen=True)
class Subject:
    """What is signed: these bytes, as this kind of file, by this key."""

    file: str
    sha256: str
    key: str
    format: str = _FORMAT
    version: int = _VERSION

    @property
    def message(self) -> bytes:
        return canonical(asdict(self))


def need_cryptography() -> None:
    """Say what to install."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise UsageError("signatures need cryptography; pip install 'dpearl[sign]'") from None


def new_key(path: str | Path) -> tuple[Path, str]:
    """A fresh key pair: the private key here, for its owner alone, the public one beside it. Its name and fingerprint."""
    need_cryptography()
    from cryptography.hazmat.primitives import serialization as pem
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path, public = Path(path), public_of(path)
    for output in (path, public):
        container.claim(output)
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    container.place_file(path, secret, mode=0o600)
    container.place_file(public, key.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo))
    return public, fingerprint(key.public_key())


def public_of(path: str | Path) -> Path:
    """Where the public half of a new key is kept: owner.pub.pem beside owner.pem."""
    return Path(path).with_suffix(".pub.pem")


def fingerprint(key: Ed25519PublicKey) -> str:
    """SHA-256 of a public key: `openssl pkey -pubin -in owner.pub.pem -outform DER | sha256sum`."""
    from cryptography.hazmat.primitives import serialization as pem

    return hashlib.sha256(key.public_bytes(pem.Encoding.DER, pem.PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def sign(file: str | Path, key: str | Path, output: str | Path) -> str:
    """Sign a release or model that keeps its promise. The signer's fingerprint."""
    need_cryptography()
    container.claim(output)
    secret = _private_key(Path(key))
    load_release_inside(file)
    subject = _subject(Path(file), fingerprint(secret.public_key()))
    line = canonical({**asdict(subject), "signature": secret.sign(subject.message).hex()})
    container.place_file(output, line + b"\n")
    return subject.key


def verify(file: str | Path, signature: str | Path, public_key: str | Path) -> tuple[Release, str]:
    """The release that a signed file is or holds, and its signer's fingerprint; refused unless all of it holds."""
    need_cryptography()
    from cryptography.exceptions import InvalidSignature

    key = _public_key(Path(public_key))
    release, _ = load_release_inside(file)
    told, made = _read_signature(Path(signature))
    found = _subject(Path(file), fingerprint(key))
    if told.key != found.key:
        raise FileError(f"{signature}: was made with another key ({told.key}), not with that in {public_key} ({found.key})")
    try:
        key.verify(made, told.message)
    except InvalidSignature:
        raise FileError(f"{signature}: is not a signature of that key; trust neither it nor {file}") from None
    if told != found:
        raise FileError(f"{file}: is not the file that was signed: its bytes differ; get the one that was")
    return release, found.key


def _subject(file: Path, key: str) -> Subject:
    kind = container.kind_of(file)
    if kind not in (RELEASE, MODEL):
        raise FileError(f"{file}: is neither a release nor a model")
    with file.open("rb") as content:
        return Subject(kind, hashlib.file_digest(content, "sha256").hexdigest(), key)


def _read_signature(path: Path) -> tuple[Subject, bytes]:
    content = _small(path, "signature")
    try:
        told: dict[str, Any] = json.loads(content)
        spelt = told.pop("signature")
        subject, made = Subject(**told), bytes.fromhex(spelt)
        if content != canonical({**asdict(subject), "signature": made.hex()}) + b"\n":  # one signature has one spelling
            raise ValueError("spelling")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise FileError(f"{path}: is not a signature file, or is damaged; `dpearl sign` makes one") from None
    if subject.format != _FORMAT or type(subject.version) is not int or subject.version > _VERSION:
        raise FileError(f"{path}: is no signature file that this dpearl knows; upgrade dpearl to read it")
    return subject, made


def _private_key(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _small(path, "private key")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise FileError(f"{path}: others may read this private key; chmod 600 {path}, or make another with --new-key")
    try:
        key = load_pem_private_key(content, password=None)
    except TypeError:
        raise FileError(f"{path}: is encrypted; `openssl pkey -in {path} -out plain.pem` makes a plain one") from None
    except Exception:  # parsers raise their own kinds on bytes that make no key
        raise FileError(f"{path}: holds no private key; `dpearl sign --new-key owner.pem` makes one") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise FileError(f"{path}: is no Ed25519 key; `dpearl sign --new-key owner.pem` makes one")
    return key


def _public_key(path: Path) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(_small(path, "public key"))
    except FileError:
        raise
    except Exception:  # the same
        raise FileError(f"{path}: holds no public key; get the one that the signer published") from None
    if not isinstance(key, Ed25519PublicKey):
        raise FileError(f"{path}: is no Ed25519 key; get the one that the signer published")
    return key


def _small(path: Path, what: str) -> bytes:
    """A file of at most a few bytes; no pipe or device is ever opened."""
    try:
        if not path.is_file():
            raise FileError(f"{path}: no such {what} file")
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if len(content) > _LARGEST:
        raise FileError(f"{path}: is larger than any {what} file")
    return content
