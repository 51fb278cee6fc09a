"""The server's storage in PostgreSQL, for several server processes on one database."""
