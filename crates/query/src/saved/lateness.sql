WITH placed AS (
    SELECT started_ns - intended_ns AS late_ns,
        row_number() OVER (ORDER BY started_ns - intended_ns, done_ns, connection) AS place,
        count(*) OVER () AS many
    FROM load_samples
)
SELECT count(*) AS requests, avg(late_ns) AS mean_ns,
    min(CASE WHEN place * 100 >= many * 50 THEN late_ns END) AS p50_ns,
    min(CASE WHEN place * 100 >= many * 99 THEN late_ns END) AS p99_ns,
    max(late_ns) AS max_ns
FROM placed
