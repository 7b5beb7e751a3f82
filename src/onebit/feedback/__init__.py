"""Feedback on its way to a learner (channels), and how a learner interprets it."""
