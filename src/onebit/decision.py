"""Where pickles of earlier versions look for `Decision`, which is in `onebit.learner.decision`."""

from onebit.learner.decision import Decision

__all__ = ["Decision"]
