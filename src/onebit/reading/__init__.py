"""Reading contexts: texts, dicts, rows of tables and vectors become features and their values."""
