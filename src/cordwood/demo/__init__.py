"""`cordwood demo`: a first minute that can be checked.

    story ──▶ broker, traffic, job      what happens: load, a kill -9, history, a table
      │          │
      │          ▼
      ├──▶    pulse ──▶ chart           how fast it went, through the crash
      ▼
    counting ──▶ proof                  what is there, read again from log, Parquet and table; nothing from counters

What is claimed at the end is found by reading, so that a row that is missing is missing in the claim, too.
"""
