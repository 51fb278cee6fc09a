"""Where memories are kept: keys and slots, SQLCipher, rows and versions, anchor, backup."""
