"""Edits of source files, for a while."""

import contextlib

CODE = "\n_EDITED = 1\n"


@contextlib.contextmanager
def edited(path, edit):
    """A file with another text for a while: one that is added, or (old, new)."""
    before = path.read_text()
    after = before.replace(*edit, 1) if isinstance(edit, tuple) else before + edit
    assert after != before
    path.write_text(after)
    try:
        yield
    finally:
        path.write_text(before)
