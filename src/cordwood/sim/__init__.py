"""The computer, pretended: seeded, and failing in every way that the real one may."""
