-- Every insert and every update gives a row its moment; no writer can give it another. A row is deleted by
-- UPDATE customers SET deleted_at = CURRENT_TIMESTAMP, which is an update.
CREATE TABLE customers (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL,
  deleted_at timestamptz,
  version timestamptz NOT NULL
);
CREATE INDEX customers_version ON customers (version, id);

CREATE FUNCTION customers_stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.version := clock_timestamp();
  RETURN NEW;
END $$;
CREATE TRIGGER customers_stamp BEFORE INSERT OR UPDATE ON customers
  FOR EACH ROW EXECUTE FUNCTION customers_stamp();
