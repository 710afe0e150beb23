-- A line that changes moves its order. Needs the table orders.
CREATE TABLE order_lines (
  order_id bigint NOT NULL REFERENCES orders (id),
  line integer NOT NULL,
  sku text NOT NULL,
  PRIMARY KEY (order_id, line)
);
CREATE FUNCTION order_lines_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE orders SET status = status WHERE id = NEW.order_id;
  RETURN NEW;
END $$;
CREATE TRIGGER order_lines_move AFTER INSERT OR UPDATE ON order_lines
  FOR EACH ROW EXECUTE FUNCTION order_lines_move();
