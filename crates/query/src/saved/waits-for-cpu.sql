SELECT pid, process, count(*) AS waits, sum(duration_ns) AS waited_ns, max(duration_ns) AS longest_ns
FROM waits
WHERE cause = 'cpu'
GROUP BY pid, process
ORDER BY waited_ns DESC, pid, process
LIMIT 40
