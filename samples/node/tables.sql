CREATE TABLE processed_events (id text PRIMARY KEY, taken_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE copies (poller text NOT NULL, key jsonb NOT NULL, data jsonb NOT NULL, PRIMARY KEY (poller, key));
CREATE TABLE changes (poller text NOT NULL, key jsonb NOT NULL, count bigint NOT NULL, PRIMARY KEY (poller, key));
