"""A small HTTP/1.1 server on one event loop: requests in, responses and streams out.

It knows nothing of topics or of the broker, and imports no other part of cordwood.

    bytes ──▶ parser ──▶ request ──▶ handle (yours) ──▶ response | stream ──▶ bytes
              └──────────── connection: order, time, backpressure ────────────┘

    limits      how much, how many, how long; each with its reason
    refusal     an answer that is an error, raised: status, code, message
    request     what a client asked
    parser      the bytes of one connection turned into requests; no I/O
    response    an answer that is whole
    stream      an answer that is sent piece by piece
    occupancy   who is connected, and how many bytes are being received
    exchange    the request that is being answered
    connection  one client: its requests in order, its deadlines
    handshakes  connections over TLS, before they are
    listener    the socket, the clock's tick, start and stop
"""
