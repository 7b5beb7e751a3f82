"""Learners by name, and recipes: files of settings of learners."""
