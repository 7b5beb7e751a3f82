"""The dashboard: any model at work, read from its journal."""
