"""Rows the owner opted in, one by one: the only plaintext a server ever holds (sync.md 6).

Apart from everything else on purpose: own file or schema, own routes, own tokens. Nothing here can
read a vault row, and no vault row fits into its tables.
"""
