-- Some rows to try it with.
INSERT INTO orders (status, amount) VALUES ('new', 12.50);
INSERT INTO orders (status, amount) VALUES ('new', 99.90);
INSERT INTO orders (status, amount) VALUES ('paid', 7.25);
