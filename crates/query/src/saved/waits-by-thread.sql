SELECT pid, process, cause, count(*) AS waits, sum(duration_ns) AS waited_ns, max(duration_ns) AS longest_ns
FROM waits
WHERE traced = 1
GROUP BY pid, process, cause
ORDER BY waited_ns DESC, pid, process, cause
LIMIT 40
