WITH placed AS (
    SELECT class, response_ns,
        row_number() OVER (PARTITION BY class ORDER BY response_ns, id) AS place,
        count(*) OVER (PARTITION BY class) AS many
    FROM requests
)
SELECT class, count(*) AS requests, avg(response_ns) AS mean_ns,
    min(CASE WHEN place * 100 >= many * 50 THEN response_ns END) AS p50_ns,
    min(CASE WHEN place * 100 >= many * 99 THEN response_ns END) AS p99_ns,
    max(response_ns) AS max_ns
FROM placed
GROUP BY class
ORDER BY requests DESC, class
