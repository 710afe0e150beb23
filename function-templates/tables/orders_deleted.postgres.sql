-- Writes down which orders were deleted, stamped as the orders themselves are. Needs the table orders.
CREATE TABLE orders_deleted (
  version timestamptz NOT NULL,
  id bigint NOT NULL,
  PRIMARY KEY (version, id)
);
CREATE FUNCTION orders_on_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_deleted (version, id) VALUES (clock_timestamp(), OLD.id);
  RETURN OLD;
END $$;
CREATE TRIGGER orders_on_delete AFTER DELETE ON orders
  FOR EACH ROW EXECUTE FUNCTION orders_on_delete();
