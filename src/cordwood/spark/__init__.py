"""Spark reads and writes topics as tables.

    spark.read.format("cordwood"), readStream, write, writeStream        no jar, no registration
    cordwood.spark.table(spark, endpoint, topic)                         a whole topic, its history as native Parquet

    options     what a query asks for                     columns    messages as Spark has them
    extent, places, position, filters, pace, plan         planning: values in, tasks out, nobody is asked
    broker, store                                         what is asked of the broker and of the object store
    source, stream, read                                  reading: on the driver, on the driver, on executors
    sink                                                  writing: stage on executors, publish on the driver
    table, session                                        for programs

Importing this does not import Spark.
"""

from cordwood.spark.table import table

__all__ = ["table"]
