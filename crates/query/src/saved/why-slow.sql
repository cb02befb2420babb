WITH placed AS (
    SELECT id, CASE WHEN row_number() OVER (ORDER BY response_ns DESC, id) * 100 <= count(*) OVER () + 99
        THEN 1 ELSE 0 END AS slow
    FROM requests
), counted AS (
    SELECT sum(slow) AS slow_count, count(*) - sum(slow) AS other_count FROM placed
)
SELECT parts.part, parts.culprit,
    1.0 * sum(CASE WHEN placed.slow = 1 THEN parts.duration_ns ELSE 0 END) / max(counted.slow_count) AS slow_mean_ns,
    CASE WHEN max(counted.other_count) > 0
        THEN 1.0 * sum(CASE WHEN placed.slow = 0 THEN parts.duration_ns ELSE 0 END) / max(counted.other_count)
    END AS other_mean_ns
FROM parts
JOIN placed ON placed.id = parts.request_id
CROSS JOIN counted
GROUP BY parts.part, parts.culprit
ORDER BY slow_mean_ns DESC, parts.part, parts.culprit
LIMIT 20
