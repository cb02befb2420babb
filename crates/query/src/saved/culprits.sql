SELECT part, culprit, count(DISTINCT request_id) AS requests, sum(duration_ns) AS part_ns,
    max(duration_ns) AS longest_ns
FROM parts
WHERE part NOT IN ('run', 'generator', 'connect', 'request_transit', 'response_transit', 'client_wakeup')
GROUP BY part, culprit
ORDER BY part_ns DESC, part, culprit
LIMIT 40
