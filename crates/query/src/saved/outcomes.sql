SELECT class, outcome, status, count(*) AS requests, avg(response_ns) AS mean_ns
FROM requests
GROUP BY class, outcome, status
ORDER BY requests DESC, class, outcome, status
