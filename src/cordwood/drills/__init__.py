"""Drills: things that try to make a promise false, on a pretended or a real machine."""
