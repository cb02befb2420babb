SELECT part, sum(duration_ns) AS part_ns,
    100.0 * sum(duration_ns) / (SELECT sum(duration_ns) FROM parts) AS percent
FROM parts
GROUP BY part
ORDER BY part_ns DESC, part
