"""Sync inside the vault's own transactions: what is sealed, applied, kept and acknowledged."""
