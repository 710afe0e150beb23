-- One order comes and goes.
INSERT INTO orders (status, amount) VALUES ('cancelled', 1.00);
DELETE FROM orders WHERE status = 'cancelled';
