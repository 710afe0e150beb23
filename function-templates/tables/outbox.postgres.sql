-- Written in the same transaction as the change that it tells of; never updated.
CREATE TABLE outbox (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  body jsonb NOT NULL,
  written_at timestamptz NOT NULL DEFAULT now()
);
