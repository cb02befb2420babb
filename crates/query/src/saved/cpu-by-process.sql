SELECT process, count(DISTINCT pid) AS threads, count(*) AS turns, sum(duration_ns) AS run_ns,
    100.0 * sum(duration_ns) / (SELECT duration_ns FROM run) AS percent_of_one_cpu
FROM slices
GROUP BY process
ORDER BY run_ns DESC, process
