-- A line that changes moves its order. Needs the table orders.
CREATE TABLE order_lines (
  order_id INTEGER NOT NULL REFERENCES orders (id),
  line INTEGER NOT NULL,
  sku TEXT NOT NULL,
  PRIMARY KEY (order_id, line)
);
CREATE TRIGGER order_lines_inserted AFTER INSERT ON order_lines BEGIN
  UPDATE orders SET status = status WHERE id = NEW.order_id;
END;
CREATE TRIGGER order_lines_updated AFTER UPDATE ON order_lines BEGIN
  UPDATE orders SET status = status WHERE id = NEW.order_id;
END;
