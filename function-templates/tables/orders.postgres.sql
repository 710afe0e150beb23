-- Every insert and every update gives a row its moment; no writer can give it another.
CREATE TABLE orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  status text NOT NULL,
  amount numeric(10,2) NOT NULL,
  version timestamptz NOT NULL
);
CREATE INDEX orders_version ON orders (version, id);

CREATE FUNCTION orders_stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.version := clock_timestamp();
  RETURN NEW;
END $$;
CREATE TRIGGER orders_stamp BEFORE INSERT OR UPDATE ON orders
  FOR EACH ROW EXECUTE FUNCTION orders_stamp();
