"""Threads: a pool of our own, and the blocks of products handed out to it."""
