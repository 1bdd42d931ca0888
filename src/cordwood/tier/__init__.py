"""History in an object store: Parquet objects whose names say what they hold, and who may write there."""
