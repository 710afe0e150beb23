-- Every insert and every update gives a row its moment; no writer can give it another.
CREATE TABLE orders (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  status VARCHAR(20) NOT NULL,
  amount DECIMAL(10,2) NOT NULL,
  version TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
);
CREATE INDEX orders_version ON orders (version, id);

CREATE TRIGGER orders_inserted BEFORE INSERT ON orders FOR EACH ROW SET NEW.version = NOW(6);
CREATE TRIGGER orders_updated BEFORE UPDATE ON orders FOR EACH ROW SET NEW.version = NOW(6);
