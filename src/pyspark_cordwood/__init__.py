"""Where Spark looks by itself: a package named `pyspark_…` with a `DefaultSource` needs no registration."""

from cordwood.spark.source import CordwoodSource as DefaultSource

__all__ = ["DefaultSource"]
