SELECT requests.class, count(DISTINCT requests.id) AS requests, sum(parts.duration_ns) AS run_ns,
    1.0 * sum(parts.duration_ns) / count(DISTINCT requests.id) AS run_mean_ns
FROM requests JOIN parts ON parts.request_id = requests.id
WHERE parts.part = 'run'
GROUP BY requests.class
ORDER BY run_ns DESC, requests.class
