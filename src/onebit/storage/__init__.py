"""The state of a learner besides its table of weights: full matrices, stored contexts."""
