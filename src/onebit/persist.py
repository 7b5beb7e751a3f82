"""Where pickles of earlier versions look for `restore`, which is in `onebit.learner.files`."""

from onebit.learner.files import restore

__all__ = ["restore"]
