WITH counted AS (
    SELECT 1.0 * sum(CASE WHEN half = 1 THEN 1 ELSE 0 END) AS first_count,
        1.0 * sum(CASE WHEN half = 2 THEN 1 ELSE 0 END) AS second_count
    FROM requests
), summed AS (
    SELECT parts.part, sum(CASE WHEN requests.half = 1 THEN parts.duration_ns ELSE 0 END) AS first_ns,
        sum(CASE WHEN requests.half = 2 THEN parts.duration_ns ELSE 0 END) AS second_ns
    FROM parts JOIN requests ON requests.id = parts.request_id
    GROUP BY parts.part
), means AS (
    SELECT part,
        CASE WHEN first_count > 0 THEN first_ns / first_count END AS first_mean_ns,
        CASE WHEN second_count > 0 THEN second_ns / second_count END AS second_mean_ns
    FROM summed CROSS JOIN counted
)
SELECT part, first_mean_ns, second_mean_ns, second_mean_ns - first_mean_ns AS change_ns
FROM means
ORDER BY (second_mean_ns - first_mean_ns) * (second_mean_ns - first_mean_ns) DESC, part
