"""What a learner keeps: a table of weights, full matrices, stored contexts."""
