"""Pipelines: each is a function that takes a SparkSession, and a command of `cordwood spark`.

compact    many small objects of a topic into few large ones
scrub      every checksum and every offset of the history
"""
