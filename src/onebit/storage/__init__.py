"""The state of a learner besides its table of weights.

Full matrices, stored contexts with their kernels, the scales of inputs, and the models of `OneBit`.
"""
