"""A log of frames that survives: append, sync, read, recover.

It knows frames and entries as bytes, nothing of topics, and imports only `machine` and `errors`.

    frame      the bytes of one frame, and how each bit of it is under a checksum
    segment    the bytes of one file: header, snapshot, frames
    scan       reads a file of frames and says where good bytes end, and why
    clean      the mark that a clean shutdown leaves
    survey     reads a whole journal, changes nothing, and reports
    verdict    decides what a report means: the end, torn, or damaged
    spares     files prepared ahead, and old segments used again
    journal    append, group commit, rotation, reading, opening
    committer  the thread that commits
    repair     what an operator may choose to do about damage

The byte tables are in docs/format.md; golden bytes are under tests/formats.
"""
