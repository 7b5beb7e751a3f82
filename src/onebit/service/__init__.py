"""The service: a durable journal, an engine per model, HTTP in front, and a client."""
