"""The library that programs talk to a broker with; it knows the protocol, never the broker.

    send ──▶ inlet ──▶ packing ──▶ lanes ──▶ wires ──▶ broker          Producer, on the sender's thread
    iterate ◀── inbox ◀── leasing ◀──────────────────────┤            Consumer, on two threads
    ack ──▶ delivery ──▶ settling ──▶ telling ───────────▶

    the way       endpoint  connection  reply  retry  terms  bell
    producing     page: rows of messages · inlet: pages in order · columns: rows made Arrow · packing: rows to parcels
                  parcel: what travels together · ipc: its bytes · lane: numbers · wire, wires: connections
                  survey: how many partitions · sender: the thread · future: where a message went · producer
    consuming     ranges: sets of offsets · holdings: what is on lease · message · inbox: fetched ahead
                  leasing: the thread that fetches · settling: the thread that acknowledges and renews
                  telling: how that is said · narrowing: which of it is refused · consumer
    asking        caller: single requests · reading: a long answer · client

Two rules. Everything that waits has a limit. A thread of ours never waits while it holds a lock that `send` or `ack`
may want.
"""
