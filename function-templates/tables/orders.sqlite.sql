-- Every insert and every update gives a row the next number, inside the writing transaction.
CREATE TABLE orders (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  status TEXT NOT NULL,
  amount NUMERIC NOT NULL,
  version INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX orders_version ON orders (version, id);

-- A number is never given twice, also after a delete: max(version) + 1 would be.
CREATE TABLE orders_clock (version INTEGER NOT NULL);
INSERT INTO orders_clock VALUES (0);

CREATE TRIGGER orders_inserted AFTER INSERT ON orders BEGIN
  UPDATE orders_clock SET version = version + 1;
  UPDATE orders SET version = (SELECT version FROM orders_clock) WHERE id = NEW.id;
END;
CREATE TRIGGER orders_updated AFTER UPDATE ON orders WHEN NEW.version = OLD.version BEGIN
  UPDATE orders_clock SET version = version + 1;
  UPDATE orders SET version = (SELECT version FROM orders_clock) WHERE id = NEW.id;
END;
