"""What we ask of the computer, as small protocols with the real thing beside each.

`cordwood.sim` has the same things pretended: seeded, and failing in every way that the real ones may.
"""
