SELECT cpu, sum(duration_ns) AS busy_ns, sum(CASE WHEN traced = 1 THEN duration_ns ELSE 0 END) AS server_ns,
    100.0 * sum(duration_ns) / (SELECT duration_ns FROM run) AS percent
FROM slices
GROUP BY cpu
ORDER BY cpu
