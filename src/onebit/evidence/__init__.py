"""What a log of one-bit feedback says about another policy, and how certain that is.

`sums` has the estimates and brackets of a block of rounds, as sums that can be added; `intervals`
makes of them intervals that hold however often one looks.
"""
