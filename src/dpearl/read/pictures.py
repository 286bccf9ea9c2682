"""Labelled images: .npz archives and folders LABEL/image.png."""

from __future__ import annotations

import lzma
import math
import os
import struct
import sys
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy
from numpy.typing import NDArray
from PIL import Image as pillow

from dpearl.cells import object_texts
from dpearl.errors import DataError
from dpearl.schema import Image, Schema

_ROWS = 2**12
_MODES = {1: ("L", "1"), 3: ("RGB",)}
_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")
_LARGEST, _BATCH = 2**26, 2**24
_ZIP_ERRORS = (
    *(OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError),
    *(ArithmeticError, EOFError, LookupError, MemoryError, RecursionError, RuntimeError, SyntaxError, TypeError, ValueError),
)
"""What zipfile, its decompressors and NumPy's header parser raise on bytes that anybody may have written."""


def is_picture(path: Path) -> bool:
    """Whether a file's name says that it is an image."""
    return path.is_file() and path.suffix.lower() in _SUFFIXES


def picture_type(shape: tuple[int, ...], where: str) -> pa.DataType:
    """The type of a stack of pictures, its shape included."""
    if len(shape) not in (2, 3) or 0 in shape:
        raise DataError(f"{where}: is no stack of images; expected (rows, height, width) or (rows, height, width, channels)")
    return pa.fixed_shape_tensor(pa.uint8(), shape)


def picture_cells(stack: NDArray[Any], where: str) -> pa.Array:
    """Pictures as fixed-size binary cells."""
    if stack.dtype != np.uint8:
        raise DataError(f"{where}: pixels are {stack.dtype}; images must be 8-bit (uint8, 0 to 255)")
    pixels = int(np.prod(stack.shape[1:]))
    return pa.Array.from_buffers(pa.binary(pixels), len(stack), [None, pa.py_buffer(np.ascontiguousarray(stack).tobytes())])


@dataclass(frozen=True)
class NpzSource:
    """Arrays of an .npz archive as columns, streamed; no pickled objects."""

    path: Path
    typed = True
    placed = True

    @property
    def pieces(self) -> list[NpzSource]:
        return [self]

    @property
    def guessed(self) -> dict[str, str]:
        return {name: dtype.kind for name, (shape, dtype) in self._shapes.items() if len(shape) == 1}

    @property
    def where(self) -> str:
        return str(self.path)

    @cached_property
    def _shapes(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                members = [member for member in archive.namelist() if member.endswith(".npy")]
                return {member.removesuffix(".npy"): self._head(archive, member) for member in members}
        except _ZIP_ERRORS:
            raise DataError(f"{self.where}: cannot be read as .npz; is it truncated?") from None

    def _head(self, archive: zipfile.ZipFile, member: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        with archive.open(member) as stream:
            return _npy_header(stream)

    @property
    def types(self) -> dict[str, pa.DataType]:
        return {name: _array_type(shape, dtype) for name, (shape, dtype) in self._shapes.items()}

    @property
    def suggested(self) -> dict[str, pa.DataType]:
        """The arrays that are as long as the first, labels as categories."""
        same = {name: storage for name, storage in self.types.items() if self._shapes[name][0][0] == self.rows}
        return {name: pa.string() if pa.types.is_integer(storage) else storage for name, storage in same.items()}

    @property
    def rows(self) -> int:
        return next((shape[0] for shape, _ in self._shapes.values()), 0)

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        lengths = {name: self._shapes[name][0][0] for name in schema.reads}
        for name in schema.reads:
            if self._width(name) > _LARGEST:
                raise DataError(f"{self.where}: a cell of {name!r} claims more bytes than any cell here should have; remove it")
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise DataError(f"{self.where}: arrays differ in length ({listed} rows); declare arrays of one length")
        try:
            with zipfile.ZipFile(self.path) as archive:
                streams = {name: archive.open(f"{name}.npy") for name in schema.reads}
                for stream in streams.values():
                    _npy_header(stream)
                step = max(1, min(_ROWS, _BATCH // max(1, *map(self._width, schema.reads))))
                for start in range(0, max(lengths.values()), step):
                    size = min(step, max(lengths.values()) - start)
                    cells = [self._cells(name, streams[name], size) for name in schema.reads]
                    yield pa.RecordBatch.from_arrays(cells, schema.reads)
        except _ZIP_ERRORS:
            raise DataError(f"{self.where}: cannot be read to its end; is it truncated?") from None

    def _width(self, name: str) -> int:
        """Bytes of a row, as the header claims."""
        shape, dtype = self._shapes[name]
        return dtype.itemsize * math.prod(shape[1:])

    def _cells(self, name: str, stream: IO[bytes], size: int) -> pa.Array:
        shape, dtype = self._shapes[name]
        values = np.frombuffer(stream.read(size * self._width(name)), dtype).reshape(size, *shape[1:])
        if len(shape) == 1:
            return object_texts(_letters(values)) if dtype.kind in "SU" else pa.array(values.astype(dtype.newbyteorder("=")))
        return picture_cells(values, f"{self.where}: array {name!r}")


def _letters(texts: NDArray[Any]) -> NDArray[Any]:
    """Text whose letters exist: NumPy breaks down on a code beyond Unicode, and a cell must not."""
    if texts.dtype.kind != "U" or not texts.dtype.itemsize:
        return texts
    codes = texts.astype(texts.dtype.newbyteorder("=")).view(np.uint32)
    return (
        np.where(codes > sys.maxunicode, ord("\N{REPLACEMENT CHARACTER}"), codes)
        .astype(np.uint32)
        .view(texts.dtype.newbyteorder("="))
    )


def arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a .npz, which must be plain numbers."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.namelist() if member.endswith(".npy")]
            return {member.removesuffix(".npy"): _whole(archive, member) for member in members}
    except _ZIP_ERRORS:
        raise DataError(f"{path}: cannot be read as a .npz of plain numbers") from None


def _whole(archive: zipfile.ZipFile, member: str) -> NDArray[Any]:
    """An array, after its claimed size is known to be sane."""
    with archive.open(member) as stream:
        shape, dtype = _npy_header(stream)
    if dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize > _LARGEST:
        raise ValueError("size")
    with archive.open(member) as stream:
        return np.asarray(npy.read_array(stream))


def _npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type, nothing of the content; an array that cannot be streamed is of no type."""
    major, _ = npy.read_magic(stream)
    shape, fortran, dtype = (npy.read_array_header_1_0 if major == 1 else npy.read_array_header_2_0)(stream)
    if any(size < 0 for size in shape):
        raise ValueError("shape")
    moment = dtype.kind == "M" and np.datetime_data(dtype)[0] in ("D", "s", "ms", "us", "ns")
    streams = (dtype.kind in "biufSU" or moment) and dtype.char != "g" and not (fortran and len(shape) > 1)
    return shape or (0,), dtype if streams else np.dtype(object)


def _array_type(shape: tuple[int, ...], dtype: np.dtype[Any]) -> pa.DataType:
    """How an array is stored, as far as a schema may declare it: undeclared arrays are never refused."""
    if dtype.kind == "O":
        return pa.opaque(pa.null(), "object or Fortran-ordered array", "NumPy")
    cells = pa.string() if dtype.kind in "SU" else pa.from_numpy_dtype(dtype)
    if len(shape) == 1:
        return cells
    is_picture = len(shape) in (3, 4) and 0 not in shape[1:] and math.prod(shape[1:]) <= _LARGEST
    return pa.fixed_shape_tensor(cells, shape[1:]) if is_picture and dtype.kind in "biuf" else pa.list_(cells)


@dataclass(frozen=True)
class FolderSource:
    """Images in folders named by their label; columns `image` and `label`."""

    path: Path
    files: tuple[Path, ...]
    typed = False
    placed = True
    guessed: ClassVar[dict[str, str]] = {}

    @property
    def pieces(self) -> list[FolderSource]:
        return [replace(self, files=self.files[start : start + _ROWS]) for start in range(0, len(self.files), _ROWS)]

    @property
    def where(self) -> str:
        return str(self.path)

    @property
    def rows(self) -> int:
        return len(self.files)

    @property
    def suggested(self) -> dict[str, pa.DataType]:
        return self.types

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        """Sizes come from the first image that can be opened; no pixel is decoded."""
        for file in self.files:
            try:
                with _opened(file) as picture:
                    shape = (picture.height, picture.width, *([3] if len(picture.getbands()) >= 3 else []))
                    return {"image": pa.fixed_shape_tensor(pa.uint8(), shape), "label": pa.string()}
            except DataError:
                raise
            except Exception:  # decoders raise anything on bytes that make no image
                continue
        raise DataError(f"{self.where}: none of its images can be opened; are they damaged?")

    def batches(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(self.files), _ROWS):
            files = self.files[start : start + _ROWS]
            columns = [self._cells(name, files, schema) for name in schema.reads]
            yield pa.RecordBatch.from_arrays(columns, schema.reads)

    def _cells(self, name: str, files: tuple[Path, ...], schema: Schema) -> pa.Array:
        if name == "label":
            return object_texts(os.fsencode(file.parent.name) for file in files)
        column = schema.columns[name]
        assert isinstance(column, Image)
        return pa.array([_pixels(file, column) for file in files], pa.binary(column.pixels))


def _pixels(file: Path, column: Image) -> bytes | None:
    """An image's bytes, None where it is corrupt; size and mode are checked before anything is decoded."""
    try:
        with _opened(file) as picture:
            if picture.size != (column.width, column.height):
                raise DataError(
                    f"{file.name}: is {picture.height} x {picture.width} pixels, the schema declares "
                    f"{column.height} x {column.width}; bring all images to one size"
                )
            if picture.mode not in _MODES[column.channels]:
                wanted = "grey (L)" if column.channels == 1 else "RGB"
                raise DataError(f"{file.name}: has colour mode {picture.mode}, the schema needs {wanted}; convert the images")
            return picture.convert(_MODES[column.channels][0]).tobytes()
    except DataError:
        raise
    except Exception:  # decoders raise anything on bytes that make no image: a missing cell
        return None


@contextmanager
def _opened(file: Path) -> Iterator[pillow.Image]:
    """An image whose header has been read; a pixel bomb is refused, and no decoder talks about content."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", pillow.DecompressionBombWarning)
        try:
            with pillow.open(file, formats=_FORMATS) as picture:
                yield picture
        except (pillow.DecompressionBombError, pillow.DecompressionBombWarning):
            raise DataError(f"{file.name}: claims more pixels than any image here should have; remove it") from None
