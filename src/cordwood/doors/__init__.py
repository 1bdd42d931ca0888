"""Doors: the logs of other systems, read without trusting them, and carried into topics once.

    bytes ─▶ recognise ─▶ driftq, danube, blipmq, airunner ─▶ records and places ─▶ survey: what is there
                                                                               └─▶ plan ─▶ carry: into topics

The decoders are pure: a buffer in, records and places out. `source` opens files, `carry` talks to a broker.
docs/import.md is the manual.
"""
