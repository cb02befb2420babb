SELECT at_ns, duration_ns, pid, process, cause, woken_by_process
FROM waits
WHERE traced = 1
ORDER BY duration_ns DESC, at_ns, pid
LIMIT 20
