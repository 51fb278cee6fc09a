"""The server's storage in one SQLite file."""
