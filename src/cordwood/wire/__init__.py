"""HTTP bodies and messages: bytes in, records or one Refused out; and back.

    produce    json.read · ndjson.read · arrow.read      (body, now_ms, limits) → Produce
    consume    ndjson.write · arrow.HEAD, write, END     runs of messages → bytes

Rule for this package: whatever the bytes, they are accepted or Refused, in one sentence, with memory bounded by
`Limits` before it is taken. A test for each format tries to make that false.
"""
