"""The sync server: an ordered mailbox of sealed rows that its clients verify (sync.md 9, 10)."""
