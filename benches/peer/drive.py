"""Drives azure-functions-db as a timer function would: one tick per line on standard input.

Each batch becomes one POST of JSON over a connection that is kept open. It says `ready` on standard output when
everything is imported, and after each tick how many rows it delivered.
"""

import http.client
import json
import sys

from azure.storage.blob import ContainerClient
from azure_functions_db import BlobCheckpointStore, PollTrigger, SqlAlchemySource


def main() -> None:
    told = json.loads(sys.argv[1])
    source = SqlAlchemySource(
        url=told["database"],
        table=told["table"],
        cursor_column="updated_at",
        pk_columns=["id"],
    )
    trigger = PollTrigger(
        name=told["poller"],
        source=source,
        checkpoint_store=BlobCheckpointStore(
            container_client=ContainerClient.from_connection_string(told["storage"], told["container"]),
            source_fingerprint=source.source_descriptor.fingerprint,
        ),
        batch_size=told["batch"],
        max_batches_per_tick=told["batches"],
        lease_ttl_seconds=told["lease"],
    )
    receiver = http.client.HTTPConnection("127.0.0.1", told["receiver"])

    def deliver(events: list) -> None:
        body = {
            "events": [
                {"id": event.event_id, "op": event.op, "cursor": event.cursor, "key": event.pk, "data": event.after}
                for event in events
            ]
        }
        encoded = json.dumps(body, default=str, separators=(",", ":")).encode()
        receiver.request("POST", "/", encoded, {"Content-Type": "application/json"})
        answer = receiver.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"the receiver answered {answer.status}")

    print("ready", flush=True)
    for _ in sys.stdin:
        print(trigger.run(timer=None, handler=deliver), flush=True)


main()
