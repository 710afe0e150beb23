-- Some messages to try it with.
INSERT INTO outbox (body) VALUES ('{"event": "order-placed", "order": 1}');
INSERT INTO outbox (body) VALUES ('{"event": "order-paid", "order": 1}');
