-- Written in the same transaction as the change that it tells of; never updated.
CREATE TABLE outbox (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  body JSON NOT NULL,
  written_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);
