"""What adversarial reviews found once, kept from coming back: each would have been a leak or a false statement."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from PIL import Image as pillow

from dpearl import RECIPES, Budget, Offer, Schema, load_release, parse_schema, release_rows, save_release
from dpearl.codec import Codec
from dpearl.container import pack, place_file, read
from dpearl.design import Recipe, auxiliary_design
from dpearl.embed import Embedding, embed, load_partial, save_partial
from dpearl.engines.local import Local
from dpearl.errors import DataError, FileError
from dpearl.owner import embed_shard
from dpearl.read import batches, open_sources, storage_names
from dpearl.release import RELEASE

CATEGORY = parse_schema({"columns": {"a": {"kind": "category", "levels": [0, 1]}}})
RECIPE = Recipe("auto", RECIPES["auto"].relation, RECIPES["auto"].scale, frequencies=2)


def codes(data: Any, schema: Schema) -> list[int]:
    table = pa.concat_tables(batches(open_sources(data), schema, 10**6))
    return [int(code) for code in Codec(schema).encode(table)["a"]]


ODD = ["unknown", True, 2**70, 10**5000, b"bytes", [1], np.ones(2), pd.NA, float("nan"), dt.date(2020, 1, 1), "\ud800", object()]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("kind", ["frame", "mapping"])
def test_an_odd_object_changes_no_other_cell(odd: Any, kind: str) -> None:
    """An inferred column type would re-code all rows when one is added."""
    usual: list[Any] = [0.0, 1.0, None, 1, "1", 0.0]
    array = np.empty(len(usual) + 1, object)
    array[:-1], array[-1] = usual, odd

    def data(objects: Any) -> Any:
        return pd.DataFrame({"a": pd.Series(list(objects), dtype=object)}) if kind == "frame" else {"a": list(objects)}

    assert codes(data(array), CATEGORY)[:-1] == codes(data(array[:-1]), CATEGORY) == [0, 1, 3, 1, 1, 0]


def test_a_categorical_reads_its_levels_one_by_one() -> None:
    usual = pd.Series([0.0, 1.0, 0.0])
    odd = pd.Series([0.0, 1.0, 0.0, "unknown"], dtype=object)
    assert codes(pd.DataFrame({"a": odd.astype("category")}), CATEGORY)[:3] == [0, 1, 0]
    assert codes(pd.DataFrame({"a": usual.astype("category")}), CATEGORY) == [0, 1, 0]


def test_a_time_among_dates_keeps_its_hour_whatever_came_first() -> None:
    schema = parse_schema({"columns": {"a": {"kind": "datetime", "lower": "2020-01-01", "upper": "2020-01-02", "step": "1h"}}})
    noon = dt.datetime(2020, 1, 1, 12)
    assert codes(pd.DataFrame({"a": pd.Series([dt.date(2020, 1, 1), noon], dtype=object)}), schema) == [0, 12]


def test_a_missing_whole_number_does_not_show_in_the_types_of_a_file_that_pandas_wrote(tmp_path: Path) -> None:
    schema = parse_schema({"columns": {"a": {"kind": "number", "lower": 0, "upper": 9, "step": 1}, "b": {"kind": "boolean"}}})
    for name, cells in {"whole": [1, 2], "gap": [1, None]}.items():
        pd.DataFrame({"a": cells, "b": [True, False]}).to_parquet(tmp_path / f"{name}.parquet")
    whole, gap = (storage_names(open_sources(tmp_path / f"{name}.parquet"), schema) for name in ("whole", "gap"))
    assert whole == gap


def test_a_file_is_read_once_however_it_is_named(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [0, 1]}), tmp_path / "d.parquet")
    (tmp_path / "link.parquet").symlink_to(tmp_path / "d.parquet")
    for twice in (["d.parquet", "d.parquet"], ["d.parquet", "./d.parquet"], ["*.parquet"], ["d.parquet", "link.parquet"]):
        with pytest.raises(DataError, match="the same file is given twice"):
            open_sources([str(tmp_path / name) for name in twice])


def test_hidden_copies_in_a_folder_are_not_data(tmp_path: Path) -> None:
    hidden = tmp_path / "data" / ".ipynb_checkpoints"
    hidden.mkdir(parents=True)
    for path in (tmp_path / "data" / "d.parquet", hidden / "d-checkpoint.parquet"):
        parquet.write_table(pa.table({"a": [0, 1]}), path)
    assert codes(tmp_path / "data", CATEGORY) == [0, 1]


def test_an_image_with_another_label_keeps_its_place(tmp_path: Path) -> None:
    """Pairs are made by place: a place that followed the label would shift when one label changes."""
    schema = parse_schema(
        {
            "label": "label",
            "columns": {
                "image": {"kind": "image", "height": 1, "width": 1},
                "label": {"kind": "category", "levels": ["0", "1"]},
            },
        }
    )
    design = auxiliary_design(schema, RECIPES["paper"])
    sums = []
    for moved in (False, True):
        folder = tmp_path / str(moved)
        for number in range(40):
            label = "0" if moved and number == 19 else "1"
            (folder / label).mkdir(parents=True, exist_ok=True)
            pillow.new("L", (1, 1), 255 * (number % 2)).save(folder / label / f"{number:02}.png")
        sums.append(int(embed(open_sources(folder), design, Local(threads=1)).sums["pairwise-distance"][0]))
    block = design.blocks[0]
    assert (sums[0] - sums[1]) ** 2 <= block.norm2


def test_a_person_is_one_person_however_the_id_is_spelt(tmp_path: Path) -> None:
    schema = parse_schema({"person": "who", "columns": {"a": {"kind": "category", "levels": [0, 1]}}})
    (tmp_path / "one.csv").write_text("who,a\n7,0\n8,1\n")
    (tmp_path / "two.csv").write_text("who,a\n7.0,0\n8.0,1\n")
    assert embed_shard([str(tmp_path / "one.csv"), str(tmp_path / "two.csv")], schema, RECIPE, 0, Local(threads=1)).rows == 2


def test_whole_numbers_with_a_fraction_are_levels_and_flags(tmp_path: Path) -> None:
    """Programs write 1.0 for 1 as soon as one cell of the column is missing."""
    (tmp_path / "d.csv").write_text("a,b\n1.0,1.0\n0.0,0.0\n,\n")
    assert codes(tmp_path / "d.csv", CATEGORY) == [1, 0, 3]
    flag = parse_schema({"columns": {"b": {"kind": "boolean"}, "a": {"kind": "boolean"}}})
    assert codes(tmp_path / "d.csv", flag) == [1, 0, 2]


def test_a_line_feed_at_a_block_edge_is_not_lost(tmp_path: Path) -> None:
    schema = parse_schema({"columns": {"a": {"kind": "category", "levels": ["x\r\ny", "z"]}}})
    cells = 300_000
    for shift in range(8):
        (tmp_path / f"{shift}.csv").write_bytes(b"a,b\n" + b"z," + b"9" * shift + b"\n" + b'"x\r\ny",123\n' * cells)
        assert sum(codes(tmp_path / f"{shift}.csv", schema)) == 1


def test_an_empty_line_of_a_single_column_is_a_row(tmp_path: Path) -> None:
    for end in ("\n", ""):
        (tmp_path / "d.csv").write_text(f"a\n1\n\n0{end}")
        assert codes(tmp_path / "d.csv", CATEGORY) == [1, 3, 0]


def test_dictionaries_that_differ_from_chunk_to_chunk_are_read() -> None:
    chunks = [pa.array([str(i) for i in span]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())) for span in SPANS]
    assert codes(pa.table({"a": pa.chunked_array(chunks)}), CATEGORY) == [0, 1] + [2] * 198


SPANS = (range(0, 100), range(100, 200))


def forge(path: Path, change: Any) -> Path:
    meta, arrays = read(path, RELEASE)
    change(meta, arrays)
    forged = path.with_name("forged.dpearl")
    forged.unlink(missing_ok=True)
    place_file(forged, pack(RELEASE, {key: value for key, value in meta.items() if key != "digest"}, arrays)[0])
    return forged


FORGERIES: dict[str, Any] = {
    "a tensor of raw rows": lambda meta, arrays: arrays.update(raw=np.ones(3)),
    "exact sums beside the noisy": lambda meta, arrays: arrays.update({"embedding/noisy/exact": np.ones(3, np.int64)}),
    "another key": lambda meta, arrays: meta.update(more=1),
    "a stage twice": lambda meta, arrays: meta["stages"].insert(0, {**meta["stages"][0], "sigmas": {"count": 1, "spread": 1}}),
    "fewer rows per person": lambda meta, arrays: meta["statement"].update(rows_per_person=1),
    "true rows per person": lambda meta, arrays: meta["statement"].update(rows_per_person=True),
    "exact rows under add-remove": lambda meta, arrays: meta.update(rows=77),
    "another relation": lambda meta, arrays: meta["statement"].update(relation="replace-one"),
    "noise for what is not there": lambda meta, arrays: meta["stages"][0]["sigmas"].update(more=5),
    "no blocks": lambda meta, arrays: meta["stages"][0]["design"].update(blocks=[]),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_release_is_refused(forgery: str, tmp_path: Path) -> None:
    schema = CATEGORY.with_rows_per_person(5)
    made = release_rows(pa.table({"a": [0, 1]}), Offer(schema, RECIPE, Budget(1.0, 1e-5)))
    save_release(made, tmp_path / "a.dpearl")
    assert load_release(tmp_path / "a.dpearl").digest == made.digest
    with pytest.raises(FileError):
        load_release(forge(tmp_path / "a.dpearl", FORGERIES[forgery]))


def test_sums_that_are_no_integers_are_refused(tmp_path: Path) -> None:
    """The fraction of a float would survive the noise."""
    sums = embed_shard(pa.table({"a": [0, 1]}), CATEGORY, RECIPE, 0, Local(threads=1))
    floats = {family: array + 0.123456 for family, array in sums.sums.items()}
    save_partial(Embedding(sums.design, floats, sums.rows, sums.shards, sums.types), tmp_path / "a")  # type: ignore[arg-type]
    with pytest.raises(FileError, match="do not fit its design"):
        load_partial(tmp_path / "a")


def test_an_empty_ledger_name_is_not_no_ledger() -> None:
    with pytest.raises(FileError):
        release_rows(pa.table({"a": [0, 1]}), Offer(CATEGORY, RECIPE, Budget(1.0, 1e-5)), ledger_path="")
