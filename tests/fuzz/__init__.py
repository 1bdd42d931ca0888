"""Whatever the bytes: accepted, or one named error, in bounded time and memory. Never anything else.

    default          few examples, always the same ones: what CI runs
    make fuzz        many examples, new ones each time; FUZZ_EXAMPLES says how many for each test

A failure prints the example and a line that repeats it. What was found once is kept: small inputs as `@example`
beside the test, files under `kept/`, each named after what it broke.
"""
