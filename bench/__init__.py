"""Benches: what Cordwood does, measured beside what the machine can do at that moment."""
