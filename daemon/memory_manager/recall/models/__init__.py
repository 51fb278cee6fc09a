"""Embedding models on disk: where they come from, how they are prepared, what is trusted.

Only functions that run in a subprocess of their own import a model library.
"""
