"""The options of `format("cordwood")` by name: what each means, and what counts where it is not given.

`options` reads them; the reference of them is written from here.
"""

from typing import NamedTuple


class Option(NamedTuple):
    """One option, in words for people; `default` is empty where nothing is the default."""

    default: str
    meaning: str


READ_OPTIONS = {
    "endpoint": Option("`CORDWOOD_ENDPOINT`", "the broker, such as `http://10.0.0.5:7878`; executors use it, too"),
    "token": Option("`CORDWOOD_TOKEN` of the driver", "what to show there"),
    "ca": Option(
        "`CORDWOOD_CA` of the driver", "who signs the broker's certificate: a PEM file of the driver's, or its text"
    ),
    "subscribe": Option("", "topics, with commas; one of `subscribe`, `subscribePattern` and `assign` is needed"),
    "subscribePattern": Option("", "a regular expression over whole names; a running query finds new topics"),
    "assign": Option("", 'partitions of topics, as JSON: `{"a":[0,1]}`'),
    "startingOffsets": Option(
        "`earliest`; a stream: `latest`",
        '`earliest`, `latest`, or JSON for each partition: `{"a":{"0":23,"1":-2}}`, where -2 is earliest, -1 latest',
    ),
    "startingTimestamp": Option("", "the first message at or after it, in milliseconds; counts before offsets"),
    "startingOffsetsByTimestamp": Option("", 'the same for each partition, as JSON: `{"a":{"0":1700000000000}}`'),
    "startingOffsetsByTimestampStrategy": Option(
        "`error`", "what a partition does that has nothing so late: `error` or `latest`"
    ),
    "endingOffsets": Option("`latest`", "the end, exclusive, as for `startingOffsets`; batch only"),
    "endingTimestamp": Option("", "the end as a time; batch only"),
    "endingOffsetsByTimestamp": Option("", "the same for each partition; batch only"),
    "maxOffsetsPerTrigger": Option("all there is", "how many messages a trigger takes, each partition its share"),
    "maxBytesPerTrigger": Option("all there is", "how many bytes a trigger takes, about"),
    "minPartitions": Option(
        "the driver's cores", "at least so many tasks: set it to the cores of a cluster, which the source cannot know"
    ),
    "maxRecordsPerPartition": Option("", "at most so many rows in a task"),
    "failOnDataLoss": Option(
        "`true`", "whether offsets that are gone fail the query; else they are left out and named in the log"
    ),
    "includeHeaders": Option("`false`", "whether there is a column `headers`; it costs"),
    "columns": Option("all but `headers`", "`key,value`: only these are handed to Spark"),
    "readerId": Option(
        "", "a named reader in the broker that follows a streaming query: its lag is seen, and retention waits for it"
    ),
    "archive": Option("", "a directory of archives of outboxes, instead of topics; no broker is asked"),
}
ARCHIVE_OPTIONS = {name: READ_OPTIONS[name] for name in ("archive", "columns", "includeHeaders", "failOnDataLoss")}
WRITE_OPTIONS = {
    "endpoint": READ_OPTIONS["endpoint"],
    "token": READ_OPTIONS["token"],
    "ca": READ_OPTIONS["ca"],
    "topic": Option("", "where all rows go; counts before a column `topic`. It must be there"),
    "writerId": Option(
        "the id of the query", "the name that a streaming query publishes under; a new checkpoint needs a new one"
    ),
}
