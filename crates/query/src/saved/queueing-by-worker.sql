SELECT part, culprit, count(DISTINCT request_id) AS requests, sum(duration_ns) AS queued_ns,
    1.0 * sum(duration_ns) / count(DISTINCT request_id) AS mean_ns, max(duration_ns) AS longest_ns
FROM parts
WHERE part IN ('accept_queue', 'worker_queue')
GROUP BY part, culprit
ORDER BY queued_ns DESC, part, culprit
