"""Experiments: simulate, sweep, race, tune, bounds, studies."""
