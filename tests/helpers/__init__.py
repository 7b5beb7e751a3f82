"""What tests of several folders share. What one folder needs alone is in that folder."""
