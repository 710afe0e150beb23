-- Every insert and every update gives a row the next number, inside the writing transaction. A row is deleted by
-- UPDATE customers SET deleted_at = CURRENT_TIMESTAMP, which is an update.
CREATE TABLE customers (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  deleted_at TEXT,
  version INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX customers_version ON customers (version, id);

-- A number is never given twice, also after a delete: max(version) + 1 would be.
CREATE TABLE customers_clock (version INTEGER NOT NULL);
INSERT INTO customers_clock VALUES (0);

CREATE TRIGGER customers_inserted AFTER INSERT ON customers BEGIN
  UPDATE customers_clock SET version = version + 1;
  UPDATE customers SET version = (SELECT version FROM customers_clock) WHERE id = NEW.id;
END;
CREATE TRIGGER customers_updated AFTER UPDATE ON customers WHEN NEW.version = OLD.version BEGIN
  UPDATE customers_clock SET version = version + 1;
  UPDATE customers SET version = (SELECT version FROM customers_clock) WHERE id = NEW.id;
END;
