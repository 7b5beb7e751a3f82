"""What happens to feedback on its way, and what a learner makes of it."""
