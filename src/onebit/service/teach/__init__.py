"""`onebit teach`: a person trains a learner, one key press per item."""
