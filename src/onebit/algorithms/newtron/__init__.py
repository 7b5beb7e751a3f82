"""Newtron: the algorithm with its matrix, the same with a kernel, and the solver of both."""

from onebit.algorithms.newtron.learner import Newtron as Newtron
