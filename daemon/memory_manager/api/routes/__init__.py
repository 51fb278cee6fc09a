"""Handlers, one module per group of routes (xmemo.md 5)."""
