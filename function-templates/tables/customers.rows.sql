-- Some rows to try it with; one is deleted.
INSERT INTO customers (name) VALUES ('Ada');
INSERT INTO customers (name) VALUES ('Grace');
INSERT INTO customers (name) VALUES ('Edsger');
UPDATE customers SET deleted_at = CURRENT_TIMESTAMP WHERE name = 'Edsger';
