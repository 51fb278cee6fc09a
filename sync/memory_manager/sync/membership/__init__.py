"""Who shares a vault: founding, joining, revoking, leaving and recovering (sync.md 7, 8)."""
