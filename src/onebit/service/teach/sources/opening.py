"""Open a source of items: the built-in digits, a folder of images or texts, a text, or a table."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from onebit.core.settings import argument
from onebit.datasets.blocks import UTF8, AnyPath, Options, encoding_named, endings
from onebit.datasets.readers import can_be_read, format_of
from onebit.registry.lookup import import_learners
from onebit.service.teach.sources.folders import Found
from onebit.service.teach.sources.images import ENDINGS
from onebit.service.teach.sources.items import Embed, Items
from onebit.service.teach.sources.lines import TEXTS, files_of, lines_of
from onebit.service.teach.sources.photos import NOT_READ, Digits, Photos, images_below
from onebit.service.teach.sources.rows import rows_of


def open_items(
    source: AnyPath | None = None,
    *,
    text: str | None = None,
    drop: Sequence[str] = (),
    embed: str | Embed | None = None,
    cache: AnyPath | None = None,
    encoding: str = UTF8,
    delimiter: str | None = None,
) -> Items:
    """The items of a source.

    source: None for the built-in digits; a folder of images or of texts, an item per file; a csv,
    tsv or Parquet file; any other file is a text, an item per line. text: the column of a table
    that is the text to learn from; without it, all columns are. drop: columns of a table to leave
    out. embed: a function, or "module:function", that makes a vector of an image's path, a text, or
    a row. cache: the folder for small pictures and features; default: in onebit's cache. encoding,
    delimiter: of a file, as in `onebit.read`.
    """
    made = _embed_named(embed) if isinstance(embed, str) else embed
    encoding = encoding_named(encoding)
    if source is not None and not os.path.exists(source):
        raise FileNotFoundError(f"there is no file or folder {os.fspath(source)}")
    is_table = source is not None and _is_table(source)
    for name, columns in (("text", text), ("drop", list(drop))):
        if columns and not is_table:
            raise ValueError(f"{argument(name, columns)} names a column, but there is no table")
    if source is None:
        return Digits(made)
    if os.path.isdir(source):
        return _files_of(Path(os.path.realpath(source)), source, made, cache, encoding)
    path = os.fspath(source)
    if not os.path.isfile(path):
        raise ValueError(f"{path} is neither a file nor a folder")
    if is_table:
        options = Options(path, text=text, drop=drop, encoding=encoding, delimiter=delimiter)
        options.format = format_of(path)
        return rows_of(options, made)
    ending = endings(path)[0]
    if ending in ENDINGS or ending in NOT_READ:
        raise ValueError(f"{path} is a single image; name the folder of your images")
    if can_be_read(path):
        raise ValueError(
            f"{path}: files of the format {format_of(path)} have nothing to show to a person; "
            "name a folder of images, a text, or a csv or Parquet file"
        )
    return lines_of(path, made, encoding)


def _files_of(
    root: Path, folder: AnyPath, embed: Embed | None, cache: AnyPath | None, encoding: str
) -> Items:
    """The images of a folder; if there is none, its texts."""
    images, texts = images_below(root), Found(root, TEXTS, "text")
    if images.paths:
        return Photos(root, images, embed, cache)
    if texts.paths:
        return files_of(root.name, texts, embed, encoding)
    raise ValueError(
        f"there is no image and no text in {os.fspath(folder)}{images.usual_reason}; images are "
        f"files that end in {', '.join(ENDINGS)}, texts are files that end in {', '.join(TEXTS)}"
    )


def _is_table(source: AnyPath) -> bool:
    is_known = os.path.isfile(source) and can_be_read(source)
    return is_known and format_of(source) in ("csv", "tsv", "parquet")


def _embed_named(name: str) -> Embed:
    """The user's function "module:function"; its module is imported, also from this folder."""
    module, colon, function = name.rpartition(":")
    if not colon or not module or not function:
        raise ValueError(f"{argument('embed')} names a function as module:function, not {name!r}")
    found = getattr(sys.modules[import_learners(module)], function, None)
    if not callable(found):
        raise ValueError(f"there is no function {function!r} in {module}")
    return found
