"""What an operator does with a journal. It is only read, also beside the service."""
