"""What is taught: every source, stable keys, what is skipped and why, embeddings, made ahead."""

import gzip
import io
import math
import os
import threading

import numpy as np
import pytest
from helpers.waiting import PATIENCE, wait_for
from hypothesis import given, settings
from hypothesis import strategies as st

import onebit as ob
from onebit.service.teach.sources import open_items, photos
from onebit.service.teach.sources.ahead import Ahead, Kept, Made, Recent
from onebit.service.teach.sources.images import FEATURES
from onebit.service.teach.sources.items import ItemError

try:
    from PIL import Image
except ImportError:
    Image = None
with_images = pytest.mark.skipif(Image is None, reason="Pillow is not installed")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """A cache for each test; nothing is left in the user's."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr("onebit.service.teach.sources.ahead._default_folder", lambda: folder)
    return folder


def draw(path, colour="red", size=(40, 30)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def keys(items):
    return [items[i].key for i in range(len(items))]


def test_a_source_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        open_items(tmp_path / "none")
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        open_items(os.devnull)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("cat.jpg", "a single image; name the folder"),
        ("cat.heic", "a single image; name the folder"),
        ("data.npz", "nothing to show"),
        ("data.svm", "nothing to show"),
    ],
)
def test_other_files_are_refused(tmp_path, name, problem):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ValueError, match=problem):
        open_items(tmp_path / name)


# Digits.


@with_images
def test_digits_are_pictures_without_their_labels():
    data = ob.datasets.digits()
    items = open_items()
    assert len(items) == 1797 and items.kind == "image" and items.skipped == []
    assert items.labels == tuple("0123456789")
    assert items.number("digit-7") == 7 and items.number("digit-1797") is None
    vector = items.context(7)
    assert vector.shape == (FEATURES,) and items.context(7) is vector
    picture, media_type = items.picture(7, 100)
    image = np.asarray(Image.open(io.BytesIO(picture)))
    assert media_type == "image/png" and image.shape == (128, 128)
    small = np.asarray(Image.fromarray(image).resize((8, 8), Image.Resampling.BOX))
    shades = data.X[7, :64] / data.X[7, 64] / 2
    assert np.corrcoef((255 - small.ravel()) / 255, shades)[0, 1] > 0.98
    assert not any("y" in vars(part) for part in (items, items[7]._asdict().__class__))
    with pytest.raises(IndexError):
        items[1797]
    items.prepare(1, 2)
    assert items.ready(1) and items.usable(1)


@with_images
def test_a_learner_learns_the_digits():
    items, y = open_items(), ob.datasets.digits().y
    learner = ob.OneBit(labels=items.labels)
    wrong = []
    for i in range(150):
        decision = learner.decide(items.context(i))
        wrong.append(decision.label != str(y[i]))
        learner.learn(decision, right=not wrong[-1])
    assert np.mean(wrong[100:]) < np.mean(wrong[:50]) - 0.15


# Images.


@with_images
def test_a_folder_of_images(tmp_path):
    for name in ("b.PNG", "a.jpg", "sub/deep/c.webp", "sub/d.gif", "z.bmp"):
        draw(tmp_path / name)
    (tmp_path / ".hidden").mkdir()
    draw(tmp_path / ".hidden" / "e.png")
    draw(tmp_path / ".f.png")
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / "phone.HEIC").write_bytes(b"x")
    (tmp_path / "empty.png").touch()
    items = open_items(tmp_path)
    assert keys(items) == ["a.jpg", "b.PNG", "sub/d.gif", "sub/deep/c.webp", "z.bmp"]
    assert dict(items.skipped) == {
        "notes.txt": "not an image by its ending",
        "phone.HEIC": ".heic images are not read; export them as JPEG or PNG",
        "empty.png": "the file is empty",
    }
    assert items[0].kind == "image" and items.context(0).shape == (FEATURES,)
    picture, media_type = items.picture(0)
    assert media_type == "image/png" and Image.open(io.BytesIO(picture)).size == (40, 30)
    draw(tmp_path / "0.png")
    again = open_items(tmp_path)
    assert again.number("a.jpg") == 1 and keys(again)[1:] == keys(items)


@with_images
def test_pictures_come_in_few_sizes(tmp_path):
    draw(tmp_path / "a.jpg", size=(2000, 1000))
    items = open_items(tmp_path)
    sizes = {}
    for size in (1, 128, 129, 300, 800, 10_000):
        sizes[size] = Image.open(io.BytesIO(items.picture(0, size)[0])).size[0]
    assert sizes == {1: 128, 128: 128, 129: 256, 300: 512, 800: 800, 10_000: 800}
    assert items.picture(0, 200) is items.picture(0, 200)


@with_images
@pytest.mark.parametrize(
    ("name", "title"),
    [
        (b"two\nlines.png", "two lines.png"),
        ("a\u202egnp.png".encode(), "a\\u202egnp.png"),
        (b"<script>alert(1)<", "<script>alert(1)<"),
        (b"\xff\xfe.png", "\\xff\\xfe.png"),
        (b"'; drop table items; --.png", "'; drop table items; --.png"),
        ("日本.png".encode(), "日本.png"),
    ],
)
def test_odd_file_names(tmp_path, name, title):
    path = os.path.join(os.fsencode(tmp_path), name)
    if not name.endswith(b".png"):  # a slash ends a name
        path, title = path + b".png", title + ".png"
    with open(path, "wb") as file:
        Image.new("RGB", (9, 9)).save(file, "PNG")
    items = open_items(tmp_path)
    assert len(items) == 1 and items[0].title == title
    assert items[0].key.encode().decode() == items[0].key
    assert items.context(0).shape == (FEATURES,)


@with_images
def test_two_names_with_the_same_key(tmp_path):
    draw(tmp_path / "\\xff.png")
    with open(os.path.join(os.fsencode(tmp_path), b"\xff.png"), "wb") as file:
        Image.new("RGB", (9, 9)).save(file, "PNG")
    items = open_items(tmp_path)
    assert len(items) == 1 and "same name" in items.skipped[0][1]


@with_images
def test_links_that_leave_the_folder_are_skipped(tmp_path):
    secret = draw(tmp_path / "outside" / "secret.png")
    folder = tmp_path / "photos"
    inside = draw(folder / "a.png")
    (folder / "b.png").symlink_to(inside)
    (folder / "c.png").symlink_to(secret)
    (folder / "d").symlink_to(secret.parent)
    (folder / "e.png").symlink_to(folder / "gone.png")
    (folder / "loop").symlink_to(folder)
    items = open_items(folder)
    assert keys(items) == ["a.png", "b.png"]
    assert dict(items.skipped) == {
        "c.png": "a link that leads out of the folder is not followed",
        "d": "a link to a folder is not followed",
        "e.png": "the file cannot be read (No such file or directory)",
        "loop": "a link to a folder is not followed",
    }
    inside.unlink()
    inside.symlink_to(secret)  # after the folder was opened
    with pytest.raises(ItemError, match="leads out of the folder"):
        items.picture(0)
    (tmp_path / "link").symlink_to(folder)  # what the user names may be a link
    (folder / "f.png").write_bytes(secret.read_bytes())
    assert "f.png" in keys(open_items(tmp_path / "link"))


@with_images
def test_an_image_that_turns_out_to_be_damaged_is_skipped_from_then_on(tmp_path):
    draw(tmp_path / "a.jpg", size=(300, 300))
    whole = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "b.jpg").write_bytes(whole[:500])
    items = open_items(tmp_path)
    assert len(items) == 2 and items.usable(1) and not items.ready(1)
    for ask in (items.context, items.picture, items.context):
        with pytest.raises(ItemError, match=r"b\.jpg: the image is damaged") as caught:
            ask(1)
        assert caught.value.key == "b.jpg"
    assert [key for key, _ in items.skipped] == ["b.jpg"]
    assert not items.usable(1) and items.ready(1) and items.usable(0)


@with_images
def test_files_and_folders_without_permission(tmp_path, monkeypatch):
    draw(tmp_path / "a.png")
    items = open_items(tmp_path)

    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("onebit.service.teach.sources.images.os.open", refuse)
        with pytest.raises(ItemError, match=r"cannot be read \(Permission denied\)"):
            items.context(0)
    found = photos.images_below(tmp_path)
    found._unreadable(PermissionError(13, "Permission denied", str(tmp_path / "sub")))
    assert found.skipped == [("sub", "the folder cannot be read (Permission denied)")]
    with pytest.raises(PermissionError):
        found._unreadable(PermissionError(13, "Permission denied", str(tmp_path)))


@with_images
def test_a_folder_without_images_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"no image and no text in .*; images are files that end in \.jpg"
    ):
        open_items(tmp_path)
    (tmp_path / "a.heic").write_bytes(b"x")
    with pytest.raises(ValueError, match="heic images are not read; export them"):
        open_items(tmp_path)


def test_a_folder_of_texts(tmp_path):
    """A text per file, known by its path. What cannot be read is skipped with its reason."""
    (tmp_path / "sub").mkdir()
    for name, data in {
        "b.txt": b"second\n\nwith lines\n",
        "a.TXT": b"first",
        "sub/c.md": "dritter Text, gr\u00fcn".encode(),
        "empty.txt": b"",
        "blank.txt": b" \n ",
        "latin.txt": b"gr\xfcn",
        "long.txt": b"x" * 500_000,
        "nul.txt": b"a\0b",
        "marked.txt": b"\xef\xbb\xbfmarked",
        "table.xlsx": b"x",
        ".hidden.txt": b"hidden",
    }.items():
        (tmp_path / name).write_bytes(data)
    items = open_items(tmp_path)
    assert keys(items) == ["a.TXT", "b.txt", "marked.txt", "sub/c.md"]
    assert [items.context(i) for i in range(4)] == [
        "first", "second\n\nwith lines", "marked", "dritter Text, grün",
    ]  # fmt: skip
    assert items[1].title == "b.txt" and items.kind == "text" and items.name == tmp_path.name
    reasons = dict(items.skipped)
    assert set(reasons) == {
        "empty.txt", "blank.txt", "latin.txt", "long.txt", "nul.txt", "table.xlsx",
    }  # fmt: skip
    assert "cp1252" in reasons["latin.txt"] and "100,000" in reasons["long.txt"]
    assert reasons["table.xlsx"] == "not a text by its ending"
    assert open_items(tmp_path, encoding="cp1252").number("latin.txt") is not None


@with_images
def test_images_come_before_texts(tmp_path):
    draw(tmp_path / "a.png")
    (tmp_path / "readme.txt").write_text("about the images")
    items = open_items(tmp_path)
    assert keys(items) == ["a.png"]
    assert items.skipped == [("readme.txt", "not an image by its ending")]


def test_identifiers_of_rows_are_warned_of(tmp_path):
    path = tmp_path / "tickets.csv"
    rows = [f"{100 + i},k{i * 7919 % 1000},{i % 3},{'xyz'[i % 3]}" for i in range(40)]
    path.write_text("\n".join(["id,key,size,kind", *rows]))
    with pytest.warns(UserWarning, match="leave it out with") as warned:
        open_items(path)
    said = [str(warning.message) for warning in warned]
    assert len(said) == 2 and "'id' numbers the rows, 100, 101, 102" in said[0]
    assert "'key' has another value in nearly every row" in said[1]
    assert all("drop=" in words for words in said)
    open_items(path, drop=["id", "key"])  # without a warning


@with_images
def test_too_many_items_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("onebit.service.teach.sources.items.MOST_ITEMS", 2)
    for name in "abc":
        draw(tmp_path / f"{name}.png")
    with pytest.raises(ValueError, match="more than 2 images"):
        open_items(tmp_path)
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    with pytest.raises(ValueError, match="more than 2 items"):
        open_items(tmp_path / "a.txt")


# Texts.


def text_file(tmp_path, data, name="notes.txt"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def test_a_text_has_an_item_per_line(tmp_path):
    path = text_file(tmp_path, "\ufefffirst line\r\n\n  \nder zweite, größer\nlast".encode())
    items = open_items(path)
    assert [items[i].text for i in range(3)] == ["first line", "der zweite, größer", "last"]
    assert items.context(1) == "der zweite, größer" and items[1].kind == "text"
    assert items.skipped == [] and items.ready(0) and items.name == "notes.txt"
    with pytest.raises(ItemError, match="has no picture"):
        items.picture(0)
    packed = open_items(text_file(tmp_path, gzip.compress(path.read_bytes()), "notes.txt.gz"))
    assert keys(packed) == keys(items)


def test_keys_of_lines_stay_when_lines_are_added(tmp_path):
    before = keys(open_items(text_file(tmp_path, b"a\nb\nb\nc\n")))
    after = open_items(text_file(tmp_path, b"new\na\nb\nb\nb\nnew\nc\n"))
    assert len(set(before)) == 4
    assert [after.number(key) for key in before] == [1, 2, 3, 6]


def test_lines_that_are_no_text_are_skipped(tmp_path):
    long = b"x" * 10_000_000
    path = text_file(
        tmp_path, b"good\n" + long + b"\n\xff\xfe\nNUL\0\n" + "ü".encode() * 100_000 + b"\nend"
    )
    items = open_items(path)
    assert [items[i].text[:4] for i in range(len(items))] == ["good", "üüüü", "end"]
    assert items.skipped == [
        ("line 2", "longer than 100,000 characters"),
        ("line 3", "not text in UTF-8; name the encoding with encoding='cp1252'"),
        ("line 4", "not text: it holds NUL characters"),
    ]
    assert len(items[1].title) == 80


def test_texts_in_other_encodings(tmp_path):
    path = text_file(tmp_path, "größer\nälter\n".encode("cp1252"))
    with pytest.raises(ValueError, match="no line can be used; line 1: not text in UTF-8"):
        open_items(path)
    assert open_items(path, encoding="cp1252")[1].text == "älter"
    path = text_file(tmp_path, "größer\nälter\n".encode("utf-16"))
    assert open_items(path)[1].text == open_items(path, encoding="utf-16")[1].text == "älter"
    path = text_file(tmp_path, "größer\nälter\n".encode("utf-16-le"))
    with pytest.raises(ValueError, match="line 1: every other byte is 0, as in text in UTF-16"):
        open_items(path)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"  \n"])
def test_an_empty_text_is_refused(tmp_path, data):
    with pytest.raises(ValueError, match="the file is empty"):
        open_items(text_file(tmp_path, data))


def test_a_column_of_a_text_is_refused(tmp_path):
    with pytest.raises(ValueError, match="text='body' names a column, but there is no table"):
        open_items(text_file(tmp_path, b"a\n"), text="body")


@given(st.lists(st.binary(max_size=20), max_size=8))
@settings(deadline=None)
def test_any_bytes_are_lines_or_skipped_or_refused(tmp_path_factory, lines):
    path = text_file(tmp_path_factory.getbasetemp(), b"\n".join(lines))
    try:
        items = open_items(path)
    except ValueError:
        return
    assert len(set(keys(items))) == len(items) > 0
    for i in range(len(items)):
        assert items[i].title.isprintable() and items.context(i).strip()


# Tables.

TICKETS = """id,body,priority,label
1,the app crashes at start,3,bug
2,please refund my last invoice,1,billing
3,,2,bug
4,thanks for the great work,,praise
"""


def test_a_column_of_texts(tmp_path):
    path = text_file(tmp_path, TICKETS.encode(), "tickets.csv")
    items = open_items(path, text="body")
    assert items.kind == "text" and len(items) == 3
    assert items.context(1) == items[1].text == "please refund my last invoice"
    assert items[1].fields == {"id": 2.0, "priority": 1.0, "label": "billing"}
    assert items.skipped == [("line 4", "there is no text in column 'body'")]
    with pytest.raises(ValueError, match="no column 'bdy', but id, body, priority, label; name"):
        open_items(path, text="bdy")


def test_rows_are_dicts_without_the_label(tmp_path):
    items = open_items(text_file(tmp_path, TICKETS.encode(), "tickets.csv"))
    assert items.kind == "row" and len(items) == 4
    assert items.context(0) == {"id": 1.0, "body": "the app crashes at start", "priority": 3.0}
    assert items.context(3) == {"id": 4.0, "body": "thanks for the great work"}
    assert items[0].text == items[0].title == "the app crashes at start"
    assert items[0].fields["label"] == "bug"
    learner = ob.OneBit(labels=["bug", "billing"])
    for i in range(4):
        learner.learn(learner.decide(items.context(i)), right=True)


def test_rows_of_numbers_are_vectors(tmp_path):
    items = open_items(text_file(tmp_path, b"x\ty\tlabel\n1\t2.5\ta\n?\t-3\tb\n", "t.tsv"))
    np.testing.assert_array_equal(items.context(0), [1, 2.5])
    np.testing.assert_array_equal(items.context(1), [math.nan, -3])
    assert items[0].title == "x: 1, y: 2.5, label: a"
    assert items[1].fields == {"x": "", "y": -3, "label": "b"}


def test_keys_of_rows_stay_when_rows_are_added(tmp_path):
    """Also if a column of numbers becomes one of names."""
    before = keys(open_items(text_file(tmp_path, b"a,b\n1,x\n2,y\n2,y\n", "t.csv")))
    after = open_items(text_file(tmp_path, b"a,b\nnew,z\n1,x\n2,y\n3,y\n2,y\n", "t.csv"))
    assert [after.number(key) for key in before] == [1, 2, 4]


def test_a_table_with_one_column_of_texts_is_a_text(tmp_path):
    data = b"what was said,Label\ngood work my friend,a\nthe app is slow,b\n"
    items = open_items(text_file(tmp_path, data, "t.csv"))
    assert items.kind == "text" and items.context(1) == "the app is slow"


def test_numbers_that_are_no_numbers_are_names(tmp_path):
    items = open_items(text_file(tmp_path, b"a,b,c\n1,inf,x\n2,1e39,y\nn/a,5,z\n", "t.csv"))
    assert items.context(1) == {"a": 2.0, "b": "1e39", "c": "y"}
    assert items.context(2) == {"b": "5", "c": "z"}


def test_truth_values_are_numbers_unless_other_values_are_among_them(tmp_path):
    cells = b"flag,mixed,day\nTrue,true,a\nfalse,maybe,b\n,false,c\n"
    items = open_items(text_file(tmp_path, cells, "t.csv"))
    assert [items.context(i) for i in range(3)] == [
        {"flag": 1.0, "mixed": "true", "day": "a"},
        {"flag": 0.0, "mixed": "maybe", "day": "b"},
        {"mixed": "false", "day": "c"},
    ]


def test_parquet_gives_the_same_items_as_csv(tmp_path):
    polars = pytest.importorskip("polars")
    path = text_file(tmp_path, TICKETS.encode(), "tickets.csv")
    polars.read_csv(path).write_parquet(tmp_path / "tickets.parquet")
    for options in ({}, {"text": "body"}):
        rows, stored = (
            open_items(path, **options),
            open_items(tmp_path / "tickets.parquet", **options),
        )
        assert len(set(keys(stored))) == len(stored)
        assert [rows.context(i) for i in range(len(rows))] == [
            stored.context(i) for i in range(len(stored))
        ]
    odd = polars.DataFrame(
        {"x": [1.0, float("inf"), None], "flag": [True, None, False], "day": ["a", None, "b"]}
    )
    odd.write_parquet(tmp_path / "odd.parquet")
    items = open_items(tmp_path / "odd.parquet")
    assert [items.context(i) for i in range(len(items))] == [
        {"x": 1.0, "flag": 1.0, "day": "a"},
        {"flag": 0.0, "day": "b"},
    ]
    assert items.skipped == [("line 2", "the row is empty")]
    polars.DataFrame({"x": [1.0], "seen": [[0.1, 0.2]]}).write_parquet(tmp_path / "lists.parquet")
    with pytest.raises(ValueError, match=r"column 'seen' is of type List\(Float64\)"):
        open_items(tmp_path / "lists.parquet")
    names = text_file(tmp_path, b"month,age\n2020_01,1\n2020_02,2\n", "months.csv")
    assert open_items(names).context(0) == {"month": "2020_01", "age": 1.0}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "the file is empty"),
        (b"a,b\n", "the file is empty"),
        (b"a,a\n1,2\n", "column 'a' appears twice"),
        (b"Label\na\n", "no column but the label"),
        (b"a,b\n1\n", "1 fields, but the header has 2"),
        (b"a;b\n1;2\n", "if ';' separates the columns"),
        (b'a,b\n1,"\n', "mend the quotes"),
        (b"a,b\n\xff,2\n", "not text in UTF-8"),
        (b"a,b\n" + b"x" * 10_000_000 + b",1\n", "no row can be used; line 2: longer than"),
        (b"a,b\nx\0,1\n", "no row can be used; line 2: not text|NUL"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, data, problem):
    with pytest.raises(ValueError, match=problem):
        open_items(text_file(tmp_path, data, "t.csv"))


def test_a_table_with_another_delimiter_and_a_column_without_a_name(tmp_path):
    items = open_items(text_file(tmp_path, b"a;\n1;x\n", "t.csv"), delimiter=";")
    assert items.context(0) == {"a": 1.0, "column 2": "x"}


def test_long_cells_are_skipped(tmp_path):
    data = b"body,n\nhello there you,1\n" + b"x" * 200_000 + b",2\n"
    items = open_items(text_file(tmp_path, data, "t.csv"), text="body")
    assert len(items) == 1 and items.skipped == [("line 3", "longer than 100,000 characters")]


# Embeddings.


def test_an_embedding_of_texts(tmp_path):
    calls = []

    def embed(text):
        calls.append(text)
        return [len(text), 1]

    items = open_items(text_file(tmp_path, b"one\nthree\n"), embed=embed)
    assert not items.ready(1)
    np.testing.assert_array_equal(items.context(1), np.float32([5, 1]))
    assert items.ready(1) and items.context(1) is items.context(1) and calls == ["three"]
    with items:
        items.prepare(0, 1)
        wait_for(lambda: items.ready(0))
    assert calls == ["three", "one"]


@with_images
def test_an_embedding_of_images(tmp_path):
    draw(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"broken")
    given = []
    items = open_items(tmp_path, embed=lambda path: given.append(path) or np.ones(3))
    assert items.context(0).shape == (3,) and items.picture(0)[1] == "image/png"
    with pytest.raises(ItemError, match="no image"):
        items.context(1)
    assert given == [str(tmp_path / "a.png")]
    assert open_items(embed=np.ravel).context(0).shape == (64,)


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (lambda text: np.ones((1, 3)), r"the shape \(1, 3\), but must be one row of numbers"),
        (lambda text: 1.0, r"the shape \(\)"),
        (lambda text: [], r"the shape \(0,\)"),
        (lambda text: [1.0, np.nan], "not finite"),
        (lambda text: [1e300], "not finite|overflow"),
        (lambda text: None, "the embedding"),
        (lambda text: text.missing, "failed with AttributeError"),
        (lambda text: ["a"], "failed with ValueError"),
    ],
)
def test_wrong_embeddings_name_the_item(tmp_path, made, problem):
    items = open_items(text_file(tmp_path, b"a\nb\n"), embed=made)
    key = items[1].key
    with pytest.raises(ItemError, match=f"{key}: .*{problem}"):
        items.context(1)
    assert [skipped for skipped, _ in items.skipped] == [key]


def test_embeddings_have_one_length(tmp_path):
    items = open_items(text_file(tmp_path, b"a\nbb\n"), embed=lambda text: [1.0] * len(text))
    items.context(0)
    with pytest.raises(ItemError, match="has 2 numbers, and those before 1"):
        items.context(1)


def test_embeddings_by_name(tmp_path, monkeypatch):
    (tmp_path / "my_embedding_of_texts.py").write_text(
        "def length(text):\n    return [len(text)]\n"
    )
    path = text_file(tmp_path, b"three\n")
    items = open_items(path, embed=f"{tmp_path / 'my_embedding_of_texts.py'}:length")
    assert items.context(0) == [5.0]
    monkeypatch.chdir(tmp_path)
    assert open_items(path, embed="my_embedding_of_texts:length").context(0) == [5.0]
    for name, problem in [
        ("length", "as module:function, not 'length'"),
        (":length", "as module:function"),
        ("my_embedding_of_texts:width", "no function 'width' in my_embedding_of_texts"),
        ("my_embedding_of_text:length", "no module 'my_embedding_of_text' is found"),
    ]:
        with pytest.raises(ValueError, match=problem):
            open_items(path, embed=name)


# Made ahead, and kept.


@with_images
def test_images_are_made_ahead_and_kept_on_disk(tmp_path, monkeypatch):
    for name in "abcdef":
        draw(tmp_path / "photos" / f"{name}.jpg")
    (tmp_path / "photos" / "g.jpg").write_bytes(b"broken")
    cache = tmp_path / "cache"
    with open_items(tmp_path / "photos", cache=cache) as items:
        assert not any(map(items.ready, range(7)))
        items.prepare(4)
        wait_for(lambda: all(map(items.ready, range(7))))  # the others follow
        assert [key for key, _ in items.skipped] == ["g.jpg"]
        vectors = [items.context(i) for i in range(6)]
        pictures = [items.picture(i) for i in range(6)]
    assert len(list(cache.iterdir())) == 6

    def never(path):
        raise AssertionError(f"{path} was read again")

    monkeypatch.setattr(photos, "read_image", never)
    again = open_items(tmp_path / "photos", cache=cache)
    assert again.ready(0) and not again.ready(6)
    np.testing.assert_array_equal([again.context(i) for i in range(6)], vectors)
    assert [again.picture(i) for i in range(6)] == pictures


@with_images
def test_a_changed_image_is_made_again(tmp_path):
    path = draw(tmp_path / "photos" / "a.png", "red")
    before = open_items(tmp_path / "photos", cache=tmp_path).context(0)
    draw(path, "blue")
    os.utime(path, ns=(1, 1))
    assert not np.array_equal(open_items(tmp_path / "photos", cache=tmp_path).context(0), before)


@with_images
@pytest.mark.parametrize("damage", [b"", b"\x93", b"garbage" * 300])
def test_a_damaged_cache_is_made_again(tmp_path, damage):
    draw(tmp_path / "photos" / "a.png")
    cache = tmp_path / "cache"
    before = open_items(tmp_path / "photos", cache=cache).context(0)
    (file,) = cache.iterdir()
    file.write_bytes(damage)
    np.testing.assert_array_equal(open_items(tmp_path / "photos", cache=cache).context(0), before)
    assert file.read_bytes() != damage


@with_images
def test_without_a_place_for_the_cache(tmp_path, monkeypatch):
    draw(tmp_path / "photos" / "a.png")
    (tmp_path / "file").touch()
    items = open_items(tmp_path / "photos", cache=tmp_path / "file" / "cache")
    assert items.context(0).shape == (FEATURES,) and items.ready(0)
    monkeypatch.setattr("onebit.service.teach.sources.ahead._default_folder", lambda: None)
    with open_items(tmp_path / "photos") as items:
        items.prepare(0)
        wait_for(lambda: items.ready(0))


@with_images
def test_many_threads_get_the_same(tmp_path):
    for i in range(8):
        draw(tmp_path / f"{i}.jpg", (30 * i, 0, 0), (300, 200))
    items = open_items(tmp_path)
    found = []

    def ask():
        found.append([(items.picture(i, 128), items.context(i).tobytes()) for i in range(8)])

    with items:
        items.prepare(*range(8))
        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 6 and all(result == found[0] for result in found)


def test_what_is_kept_on_disk_is_bounded(tmp_path):
    made = Made(b"p" * 10_000, "image/png", np.zeros(FEATURES, "<f4").tobytes())
    kept = Kept(tmp_path / "kept", most_bytes=60_000)
    images = [tmp_path / f"{i}.png" for i in range(12)]
    (tmp_path / "kept" / "mine.txt").write_text("not ours")
    for i, image in enumerate(images):
        image.touch()
        kept.save(image, made)
        for file in (tmp_path / "kept").glob("*.picture"):  # as if written a second apart
            os.utime(file, ns=(i * 10**9, file.stat().st_mtime_ns - 10**9))
    assert kept.load(images[-1]) == made and kept.load(images[0]) is None
    assert sum(f.stat().st_size for f in (tmp_path / "kept").glob("*.picture")) <= 60_000
    assert (tmp_path / "kept" / "mine.txt").exists()
    assert not kept.has(tmp_path / "gone.png")
    fresh = Kept(tmp_path / "fresh", most_bytes=60_000)
    assert not fresh.is_full
    for image in images[:5]:
        fresh.save(image, made)
    assert fresh.is_full and fresh.load(images[0]) == made


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 40)), max_size=40))
@settings(deadline=None)
def test_recent_values_are_bounded(puts):
    recent: Recent[int] = Recent(100)
    sizes = {}
    for key, size in puts:
        recent.put(key, size, size)
        sizes.pop(key, None)
        sizes[key] = size
        assert recent.get(key) == size
    kept = {key for key in sizes if key in recent}
    assert sum(sizes[key] for key in kept) <= 100
    newest = list(sizes)[len(sizes) - len(kept) :]
    assert kept == set(newest)
    assert recent.get("absent") is None


def test_the_wanted_come_first_and_the_newest_wish_before_older_ones():
    made, started, go_on = [], threading.Event(), threading.Event()

    def make(place):
        started.set()
        go_on.wait(PATIENCE)
        made.append(place)

    ahead = Ahead(make, 6, lambda: len(made) >= 7)
    ahead.want([5])
    started.wait(PATIENCE)
    ahead.want([4, 3])
    ahead.want([2, 4])
    go_on.set()
    wait_for(lambda: len(made) == 7)
    ahead.close()
    assert made == [5, 2, 4, 3, 0, 1, 2]
    ahead.want([1])  # after the end: nothing happens
    ahead.close()


def test_an_encoding_that_is_not_known_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("one\ntwo\n")
    with pytest.raises(ValueError, match="unknown encoding 'nix'"):
        open_items(path, encoding="nix")
    assert len(open_items(path, encoding="UTF8")) == 2
