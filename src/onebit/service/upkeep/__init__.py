"""What an operator does with a journal. All but `repair` only read it, also beside the service."""
