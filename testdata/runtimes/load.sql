-- The load of sqlite: inserts, an index, joins, sorting, text functions.
PRAGMA journal_mode = MEMORY;
CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
	INSERT INTO t SELECT i, (i * 7919) % 10007, 'row ' || i FROM n;
CREATE INDEX t_a ON t (a);
SELECT count(*) FROM t x JOIN t y ON x.a = y.id;
SELECT a, group_concat(substr(b, 5, 2)), count(*) FROM t GROUP BY a ORDER BY 3 DESC, 1 LIMIT 3;
SELECT count(DISTINCT upper(b)) FROM t WHERE b LIKE '%7%';
UPDATE t SET b = replace(b, 'row', 'line') WHERE a % 3 = 0;
DELETE FROM t WHERE a % 5 = 0;
VACUUM;
