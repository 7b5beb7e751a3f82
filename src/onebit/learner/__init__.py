"""What every learner is made of: settings, labels, decisions, the table of weights, files."""
