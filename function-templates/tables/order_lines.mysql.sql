-- A line that changes moves its order. Needs the table orders.
CREATE TABLE order_lines (
  order_id BIGINT NOT NULL,
  line INT NOT NULL,
  sku VARCHAR(40) NOT NULL,
  PRIMARY KEY (order_id, line),
  FOREIGN KEY (order_id) REFERENCES orders (id)
);
CREATE TRIGGER order_lines_inserted AFTER INSERT ON order_lines FOR EACH ROW
  UPDATE orders SET status = status WHERE id = NEW.order_id;
CREATE TRIGGER order_lines_updated AFTER UPDATE ON order_lines FOR EACH ROW
  UPDATE orders SET status = status WHERE id = NEW.order_id;
