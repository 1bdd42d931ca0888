"""The edge: events that survive where they happen, until the broker has them.

    names      an execution as one part of a path, and what a directory's name says
    event      one event, and many of them as columns
    facts      what an outbox's log says, as bytes
    state      where an outbox stands: a fold of its log
    log        one execution's log: append with group commit, read, record progress
    batch      events on their way: their partitions, their numbers, the request's body
    answer     what came back for a batch, and what that means
    patience   how long to wait before the next try
    delivery   what of one outbox goes next, and what an answer changes; pure but for the log
    post       the way out: a broker's connection, or a function
    sender     the thread that takes turns between outboxes
    leftovers  directories whose execution is dead: found, taken, sent
    archive    a log that was sent, compressed, verified, and read again
    look       what an outbox's directory holds, without changing it
    tend       what a person does with a left-over: put it away, number it anew
    running    what the outboxes of this process share: one sender for each place
    outbox     what an application appends to
    run        any command, passed on unchanged and recorded; beside it what that takes:
               run_lines, run_transcript, run_batches (pure), run_recorder, run_pump, run_signals

`import cordwood.edge.outbox` loads neither journal nor numpy nor pyarrow: the first comes with the first outbox, the
others with the first batch that is sent.
"""
