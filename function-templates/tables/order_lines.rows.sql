-- Some rows to try it with, of the first three orders.
INSERT INTO order_lines (order_id, line, sku) VALUES (1, 1, 'tea');
INSERT INTO order_lines (order_id, line, sku) VALUES (2, 1, 'cups');
INSERT INTO order_lines (order_id, line, sku) VALUES (3, 1, 'tea');
