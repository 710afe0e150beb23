-- Some rows to try it with.
INSERT INTO order_lines (order_id, line, sku) SELECT id, 1, 'tea' FROM orders;
