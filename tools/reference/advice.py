"""What to do about each error: by its class, by its HTTP status, by the name of its limit.

A class, a status or a limit that is not here fails the test of the reference: whoever adds an error says what to do.
"""

CLASSES = {
    "CordwoodError": "Catch this one to catch all of them. By itself it is only said by `cordwood demo`, whose next"
    " line says more.",
    "Refused": "Do not try again as it is. The sentence names the parameter, the setting or the column, and what it"
    " may be; change that.",
    "NotFound": "Create what is missing (`cordwood topic create`), or correct the name. A topic is not made by"
    " producing to it unless"
    " `auto_create_topics` is on.",
    "ObjectMissing": "An object of the history is not in the store any more. Readers that ask again get the newest"
    " state; if it stays,"
    " `cordwood spark scrub TOPIC` names every object that is missing, and a backup of the store has it.",
    "Conflict": "Look at what is there: the sentence and the fields beside it (`expected_sequence`, `epoch`, `batch`,"
    " `offset`, `owner`) say it."
    " An ack that conflicts was too late: another consumer has the message, so leave it to that one, or raise"
    " `lease_ms`.",
    "ClaimLost": "Another broker took the store over while this one could not renew its claim. Stop this one; start"
    " it again only if the"
    " other is gone.",
    "Owned": "Another broker has this store. Stop that one, or give this one another `--tier`. A dead owner's claim"
    " ends within 30 s.",
    "OtherVersion": "Use the version of Cordwood that wrote the data, or a newer one. Nothing was changed.",
    "TooLarge": "Send fewer messages at once, or smaller ones; or raise `max_message_bytes` of the broker.",
    "Unavailable": "Try again later: nothing was acknowledged. The client does so by itself. If it stays, `GET"
    " /v1/healthz` and the broker's log"
    " say why; after a failed write or sync the broker only reads until it is started again.",
    "Preparing": "Nothing: the client comes again in a moment. Over HTTP it is a 503.",
    "Full": "Free space on the disk of `--data`; the broker goes on by itself. Reads and acks go on meanwhile. For an"
    " outbox: let it send.",
    "Limited": "Wait `retry_after_ms`, then send again; the client does. If it stays, consumers are too slow or"
    " stopped: see the"
    " [limits](#limits) below.",
    "Locked": "Stop the other process, or give this one another directory. A lock ends with its process; there is no"
    " file to delete.",
    "StoreUnavailable": "Look at the object store: network, keys, rights, the bucket's name. The broker goes on"
    " taking messages meanwhile, and"
    " catches up by itself.",
    "NotAsPut": "The store gave back other bytes than were put. The broker puts the object again; if it stays, look"
    " at the store.",
    "Damaged": "Do not delete anything. `cordwood wal verify DATA` says what is lost; `cordwood wal repair DATA`"
    " mends what can be mended"
    " without loss, and asks for a choice where it cannot ([the journal](../journal.md)).",
    "DamagedLog": "The log of another system is damaged at the places named. Restore it, or import what is whole with"
    " `--skip-damaged`.",
    "DataLost": "Messages that a Spark query counts on are gone: retention took them, or the topic was made anew."
    " Start with a new checkpoint,"
    " or say `failOnDataLoss=false` to go on without them.",
}

STATUSES = {
    400: "Change the request: the message names what is wrong with it.",
    401: "Send a token: `Authorization: Bearer …`, `CORDWOOD_TOKEN`, or `token=` of a client.",
    403: "The token lacks this right for this topic; ask who made it for another.",
    404: "Create what is missing, or correct the name or the path.",
    405: "Use one of the methods in the header `Allow`.",
    408: "Send the request again, faster: its head or body stopped arriving.",
    409: "Look at the fields beside the message; they say what is there. Do not repeat it as it is.",
    413: "Send less at once, or raise `max_message_bytes`.",
    429: "Wait as long as `Retry-After` says, then send the same again; `reason` names the [limit](#limits).",
    500: "A fault of the broker: its log has a traceback. Nothing was acknowledged. Please report it.",
    503: "Try again later; nothing was acknowledged. `/v1/healthz` says whether the broker only reads.",
    507: "Free space on the broker's disk. Nothing was written; reads and acks go on.",
}

REASONS = {
    "partition_buffer_full": "`max_buffered_messages` of the topic: the slowest group that moves has so many undone"
    " in this partition. Add"
    " consumers, delete a group that nobody needs, or raise the limit.",
    "partition_buffer_bytes_full": "`max_buffered_bytes` of the topic, as above, in bytes.",
    "pending_bytes_full": "`max_pending_bytes` of the broker: so much waits for the disk, or is being received. The"
    " disk is too slow for this"
    " load; wait, or send in larger batches.",
    "lookers_full": "So many live views of the dashboard are open as one broker serves; close one.",
    "producer_buffer_full": "`buffer_bytes` of a `Producer` stayed full for `max_block_ms`: the broker is away, or"
    " slower than the program."
    " Nothing of this message was sent.",
}
