SELECT woken_by_process, process, cause, count(*) AS wakeups, sum(duration_ns) AS waited_ns
FROM waits
WHERE traced = 1 AND woken_by IS NOT NULL
GROUP BY woken_by_process, process, cause
ORDER BY wakeups DESC, woken_by_process, process, cause
LIMIT 40
