"""Pipelines: each is a function that takes a SparkSession, and a command of `cordwood spark`.

land       a topic into a Parquet table, every message once
compact    many small objects of a topic into few large ones
scrub      every checksum and every offset of the history
replay     messages chosen by time and SQL, published again once
stats      messages and bytes over time, by partition and key, and how far the groups are
"""
