-- Writes down which orders were deleted, stamped as the orders themselves are. Needs the table orders.
CREATE TABLE orders_deleted (
  version TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  id BIGINT NOT NULL,
  PRIMARY KEY (version, id)
);
CREATE TRIGGER orders_on_delete AFTER DELETE ON orders FOR EACH ROW
  INSERT INTO orders_deleted (version, id) VALUES (NOW(6), OLD.id);
