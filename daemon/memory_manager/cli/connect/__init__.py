"""``memlocket connect``: our entry in other programs' settings, and nothing else of theirs."""
