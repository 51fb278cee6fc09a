"""The MLK1 format and its signed logs: pure functions over bytes, sans-I/O (sync.md 2-9)."""
