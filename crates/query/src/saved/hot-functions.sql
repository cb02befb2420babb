SELECT process, function, count(*) AS samples, sum(weight_ns) AS run_ns
FROM samples
WHERE state = 'running'
GROUP BY process, function
ORDER BY run_ns DESC, process, function
LIMIT 40
