-- Writes down which orders were deleted, numbered as the orders themselves are. Needs the table orders.
CREATE TABLE orders_deleted (
  version INTEGER NOT NULL,
  id INTEGER NOT NULL,
  PRIMARY KEY (version, id)
);
CREATE TRIGGER orders_on_delete AFTER DELETE ON orders BEGIN
  UPDATE orders_clock SET version = version + 1;
  INSERT INTO orders_deleted (version, id) SELECT version, OLD.id FROM orders_clock;
END;
