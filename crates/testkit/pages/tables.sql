CREATE TABLE items (id integer PRIMARY KEY, code integer NOT NULL, name text NOT NULL);
INSERT INTO items SELECT n, (n * 7919) % 100000, 'item ' || n FROM generate_series(0, 99999) AS n;
ANALYZE items;
