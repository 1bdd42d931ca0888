"""A durable message log and work queue that Spark reads and writes as a table."""

__version__ = "0.1.0"
