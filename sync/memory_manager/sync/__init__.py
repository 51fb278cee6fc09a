"""Two laptops, one memory: sync of ciphertext through a server that is verified, not trusted."""
