"""The pages of docs/reference, written from the code that they describe.

    settings.py ──▶ settings.md        errors, raise statements ──▶ errors.md
    ROUTES      ──▶ http.md            /metrics of a broker     ──▶ metrics.md
    click       ──▶ cli.md             spark/known.py           ──▶ spark-options.md
                                       signatures, docstrings   ──▶ python.md

`make reference` writes them; a test fails when they are not what it would write.
"""
