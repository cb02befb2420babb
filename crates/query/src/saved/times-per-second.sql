WITH placed AS (
    SELECT at_s, response_ns,
        row_number() OVER (PARTITION BY at_s ORDER BY response_ns, id) AS place,
        count(*) OVER (PARTITION BY at_s) AS many
    FROM requests
)
SELECT at_s, count(*) AS requests,
    min(CASE WHEN place * 100 >= many * 50 THEN response_ns END) AS p50_ns,
    min(CASE WHEN place * 100 >= many * 99 THEN response_ns END) AS p99_ns,
    max(response_ns) AS max_ns
FROM placed
GROUP BY at_s
ORDER BY at_s
