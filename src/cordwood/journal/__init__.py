"""A log of frames that survives: append, sync, read, recover.

It knows frames and entries as bytes, nothing of topics, and imports only `machine` and `errors`.

    frame      the bytes of one frame, and how each bit of it is under a checksum
    segment    the bytes of one file: header, snapshot, frames
    scan       reads a file of frames and says where good bytes end, and why
    clean      the mark that a clean shutdown leaves
    survey     reads a whole journal, changes nothing, and reports
    verdict    decides what a report means: the end, torn, or damaged
    writer     writes one segment: begin, publish, append, seal
    segments   the files of an open journal: found by LSN, held while they are read
    spares     files prepared ahead, and old segments used again
    room       whether there is room, and how it is made
    fold       the owner of a journal: whoever turns its frames into state
    journal    append, group commit, rotation, reading, closing
    opening    making a judged journal ready for appends
    committer  the threads that commit and make room
    repair     what an operator may choose to do about damage

The byte tables are in docs/format.md; golden bytes are under tests/formats.
"""
