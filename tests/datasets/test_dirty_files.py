"""Files as people have them: columns to leave out, rows without a label, marks of encodings, and
headers of spreadsheets."""

from __future__ import annotations

import codecs
import gzip

import numpy as np
import pytest
from scipy import sparse

from onebit.core.settings import command_line
from onebit.datasets import read, stream
from onebit.lab.streams import load
from onebit.service.teach.sources import open_items

ROWS = [("up", 1.5, "red"), ("", 2.0, "red"), ("down", -1.0, "blue"), ("up", 3.0, "blue")]


def written(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def counted(rows=40):
    """A table with a column of its row numbers and one of dates."""
    lines = [f"{i},2024-01-01T00:{i:02},{i % 7 - 3}.5,{i % 2}\n" for i in range(rows)]
    return "id,created,a,label\n" + "".join(lines)


def assert_same(found, wanted):
    assert found.labels == wanted.labels and np.array_equal(found.y, wanted.y)
    assert np.array_equal(found.X, wanted.X)


# Columns to leave out.


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_can_be_left_out(tmp_path, ending):
    polars = pytest.importorskip("polars")
    path = written(tmp_path / "t.csv", counted())
    if ending == "parquet":
        frame = polars.read_csv(path).with_columns(polars.lit([[1.0, 2.0]]).alias("created"))
        frame.write_parquet(path := tmp_path / "t.parquet")
        with pytest.raises(ValueError, match=r"pass drop=\['created'\], or give each"):
            read(path)
    found = read(path, drop=["id", "created"])
    assert found.columns == ["a"] and found.X.shape == (40, 1)
    chunks = list(stream(path, labels=[0, 1], rows=7, drop=["id", "created"]))
    assert np.array_equal(np.concatenate([chunk.X for chunk in chunks]), found.X)


def test_wrong_columns_to_leave_out_are_named(tmp_path):
    path = written(tmp_path / "t.csv", counted())
    with command_line(), pytest.raises(ValueError, match=r"no column 'ID', but id, .* --drop"):
        read(path, drop=["ID"])
    with pytest.raises(ValueError, match="'label' is named by label= and by drop="):
        read(path, drop=["label"])
    with pytest.raises(TypeError, match=r"drop must be a list of columns: \['id'\]"):
        read(path, drop="id")
    twice = written(tmp_path / "twice.csv", "a,a,b,label\n1,2,3,x\n4,5,6,y\n")
    with command_line(), pytest.raises(ValueError, match="leave both out with --drop a"):
        read(twice)
    assert read(twice, drop=["a"]).X.tolist() == [[3], [6]]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_lesson_can_leave_columns_out(tmp_path, ending):
    polars = pytest.importorskip("polars")
    path = written(tmp_path / "t.csv", counted())
    if ending == "parquet":
        polars.read_csv(path).write_parquet(path := tmp_path / "t.parquet")
    with pytest.warns(UserWarning, match="The learner sees it: leave it out"):
        whole = open_items(path)
    with whole, open_items(path, drop=["id", "created"]) as items:
        assert items.context(0).tolist() == [-3.5] and list(items[0].fields) == ["a", "label"]
        assert whole[3].key == items[3].key  # so that progress is kept
    with pytest.raises(ValueError, match="there is no column 'when'"):
        open_items(path, drop=["when"])
    with pytest.raises(ValueError, match="but there is no table"):
        open_items(written(tmp_path / "t.txt", "a\nb\n"), drop=["a"])


def test_columns_that_tell_the_row_are_not_taken_without_a_word(tmp_path):
    path = written(tmp_path / "t.csv", counted())
    with command_line(), pytest.warns(UserWarning, match="--drop") as said:
        read(path)
    created, numbers = (str(warning.message) for warning in said)
    assert "'created' has another value in nearly every row" in created
    assert created.endswith("otherwise leave the column out with --drop created")
    assert "column 'id' numbers the rows, 0, 1, 2 and so on" in numbers
    assert numbers.endswith("leave it out with --drop id")
    assert {warning.filename for warning in said} == {__file__}  # not a line of the package


# Rows without a label.


def unlabelled(tmp_path, ending):
    labels, numbers, names = (list(column) for column in zip(*ROWS, strict=True))
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        lines = [f"{label},{number},{name}" for label, number, name in ROWS]
        return written(path, "\n".join(["label,a,b", *lines]))
    if ending == "vw":
        lines = [f"{label} | a:{number} b={name}" for label, number, name in ROWS]
        return written(path, "\n".join(lines))
    if ending == "parquet":
        polars = pytest.importorskip("polars")
        known = [label or None for label in labels]
        polars.DataFrame({"label": known, "a": numbers, "b": names}).write_parquet(path)
        return path
    X = np.array([numbers]).T
    if ending == "npz":
        np.savez(path, X=X, y=np.array(labels))
        return path
    csr = sparse.csr_matrix(X)
    path = tmp_path / "sparse.npz"
    y = np.array([1.0, np.nan, 0.0, 1.0])
    np.savez(path, data=csr.data, indices=csr.indices, indptr=csr.indptr, shape=csr.shape, y=y)
    return path


@pytest.mark.parametrize("ending", ["csv", "vw", "parquet", "npz", "sparse npz"])
def test_rows_without_a_label_can_be_left_out_and_are_counted(tmp_path, ending):
    path = unlabelled(tmp_path, ending)
    names = [0.0, 1.0] if ending == "sparse npz" else ["down", "up"]
    declared = [0, 1] if ending == "sparse npz" else names
    with command_line(), pytest.raises(ValueError, match=r"has no label.*--missing-label skip"):
        read(path)
    line = 3 if ending == "csv" else 2
    with pytest.raises(ValueError, match=f"line {line}: the row has no label"):
        list(stream(path, labels=declared, rows=3))
    with pytest.warns(UserWarning, match="1 of 4 rows has no label and was left out"):
        found = read(path, missing_label="skip")
    assert found.labels == names and found.y.tolist() == [1, 0, 1] and found.X.shape[0] == 3
    with pytest.warns(UserWarning, match="1 of 4 rows has"):
        chunks = list(stream(path, labels=declared, rows=2, missing_label="skip"))
    assert [chunk.y.tolist() for chunk in chunks] == [[1, 0], [1]]


def test_what_is_wrong_in_a_row_without_a_label_does_not_matter(tmp_path):
    path = written(tmp_path / "t.csv", "label,a\nx,1\ny,2\n,Total: 3\n,\n")
    with pytest.warns(UserWarning, match="2 of 4 rows have no label and were left out"):
        assert read(path, missing_label="skip").X.tolist() == [[1], [2]]
    path = written(tmp_path / "none.csv", "label,a\n,1\n,2\n")
    with pytest.raises(ValueError, match="none of the 2 rows has a label"):
        read(path, missing_label="skip")
    with pytest.raises(ValueError, match="missing_label must be one of 'refuse', 'skip'"):
        read(path, missing_label="drop")


@pytest.mark.parametrize("ending", ["csv", "npz", "svm"])
def test_labels_that_never_come_again_are_refused(tmp_path, ending):
    path = written(tmp_path / "t.csv", counted())
    if ending == "npz":
        np.savez(path := tmp_path / "t.npz", X=np.eye(40), y=np.arange(40))
    if ending == "svm":
        path = written(tmp_path / "t.svm", "".join(f"{i} 1:1\n" for i in range(40)))
    options = {"label": "created", "drop": ["id"]} if ending == "csv" else {}
    first = r"'2024-01-01T00:00'" if ending == "csv" else "0"
    says = rf"40 different labels in 40 rows, such as {first};.*--label"
    with command_line(), pytest.raises(ValueError, match=says):
        load(str(path), options)
    if ending == "csv":
        labels = [f"2024-01-01T00:{i:02}" for i in range(40)]
        assert read(path, labels=labels, **options).y.tolist() == list(range(40))


# Encodings.


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("packed", [False, True])
def test_an_encoding_is_known_by_its_byte_order_mark(tmp_path, encoding, packed):
    text = "höhe,label\n1.5,groß\n2.5,klein\n"
    data = text.encode(encoding)
    if encoding.endswith("-be"):
        data = {"utf-16-be": codecs.BOM_UTF16_BE, "utf-32-be": codecs.BOM_UTF32_BE}[encoding] + data
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(data) if packed else data)
    found = read(path)
    assert found.columns == ["höhe"] and found.labels == ["groß", "klein"]
    named = encoding.removesuffix("-sig")
    assert_same(read(path, encoding=named), found)
    with open_items(path, encoding="utf-8") if not packed else open_items(path) as items:
        assert dict(items[0].fields) == {"höhe": 1.5, "label": "groß"}


def test_other_formats_know_the_mark_too(tmp_path):
    for encoding in ("utf-8-sig", "utf-16"):
        path = written(tmp_path / "t.svm", "1 1:2\n2 1:3\n", encoding)
        assert read(path).X.toarray().tolist() == [[2], [3]]
        assert read(written(tmp_path / "t.vw", "1 | a\n2 | b\n", encoding)).labels == [1, 2]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["a,label\n1,x\n2,y\n", "größe,label\n1,x\n2,y\n"])
def test_utf_16_without_a_mark_is_advised(tmp_path, encoding, text):
    path = written(tmp_path / "t.csv", text, encoding)
    with command_line(), pytest.raises(ValueError, match=f"UTF-16; pass --encoding {encoding}"):
        read(path)
    assert read(path, encoding=encoding).labels == ["x", "y"]


# Headers.


def test_columns_without_a_name_are_numbered(tmp_path):
    text = ',a , label,,\n0.5,1,x,,\n0.25,2,y,"",\n'
    found = read(written(tmp_path / "t.csv", text))
    assert found.columns == ["column 1", "a", "column 4", "column 5"]
    named = read(tmp_path / "t.csv", drop=["column 4", "column 5"])
    assert named.X.tolist() == [[0.5, 1], [0.25, 2]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "a,label\n1,x,\n2,y,\n",
            "line 2: 3 fields, .* if every row ends with ',', let",
        ),
        ("a,label\n1,x\n2\n", "line 3: 1 fields, but the header has 2; is the row cut"),
        ("x,1.5,2\ny,2.5,3\n", "no column 'label', but x, 1.5, 2; the first line has to name"),
        ("Label,a\nx,1\n", "no column 'label', but Label, a; name the right one with label="),
        ("sep=;\na;label\n1;x\n", "line 1: 'sep=;' is no header; delete this line, and pass"),
    ],
)
def test_headers_that_do_not_fit_are_explained(tmp_path, text, says):
    with pytest.raises(ValueError, match=says):
        read(written(tmp_path / "t.csv", text))


def test_line_breaks_in_quotes_are_part_of_a_text(tmp_path):
    text = 'body,label\r\n"one thing\nand more",x\r\n"another\r\n\r\nthing",y\r\n'
    assert read(written(tmp_path / "t.csv", text)).y.tolist() == [0, 1]
    broken = written(tmp_path / "broken.csv", text + '"open\n1,x\n')
    with pytest.raises(ValueError, match=r"line 7: .* mend the quotes"):
        read(broken)
