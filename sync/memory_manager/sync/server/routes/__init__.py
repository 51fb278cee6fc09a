"""The calls of the sync protocol, one module per subject."""
