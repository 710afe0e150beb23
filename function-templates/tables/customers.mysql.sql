-- Every insert and every update gives a row its moment; no writer can give it another. A row is deleted by
-- UPDATE customers SET deleted_at = CURRENT_TIMESTAMP, which is an update.
CREATE TABLE customers (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(200) NOT NULL,
  deleted_at TIMESTAMP NULL,
  version TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
);
CREATE INDEX customers_version ON customers (version, id);

CREATE TRIGGER customers_inserted BEFORE INSERT ON customers FOR EACH ROW SET NEW.version = NOW(6);
CREATE TRIGGER customers_updated BEFORE UPDATE ON customers FOR EACH ROW SET NEW.version = NOW(6);
