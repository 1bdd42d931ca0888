"""The library that programs talk to a broker with; it knows the protocol, never the broker.

    send ──▶ pages ──▶ take ──▶ parcels ──▶ lanes ──▶ wire ──▶ broker        Producer
    iterate ◀── inbox ◀── lease ◀────────────────────────────┘               Consumer
    ack ──▶ holdings ──▶ ranges ─────────────────────────────▶ broker

    endpoint    where a broker is, and how to get in
    connection  one HTTP/1.1 connection on a plain socket
    reply       what came back, and which error it stands for
    retry       how long to wait before trying again
    page        messages that were sent and not yet taken; columns: what they become
    future      where a message went, once that is known
    parcel      messages of one partition that travel together, numbered
    lane        the parcels of one partition: their order, their numbers, what an answer means
    sender      the thread that moves pages to lanes and lanes to the broker
    producer    what an application sends with
    ranges      sets of offsets
    holdings    what a consumer has on lease, and what of it is done
    message     what an application gets
    leasing     the thread that fetches ahead; settling: the thread that acknowledges and renews
    consumer    what an application receives with
    client      topics, groups, reads

Two rules. Everything that waits has a limit. A thread of ours never waits while it holds a lock that `send` or
`ack` may want.
"""
