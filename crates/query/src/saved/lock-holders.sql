SELECT holder, holder_pid, lock_name, count(*) AS waits, count(DISTINCT pid) AS waiters,
    sum(duration_ns) AS waited_ns, max(duration_ns) AS longest_ns
FROM lock_waits
WHERE holder_pid IS NOT NULL
GROUP BY holder, holder_pid, lock_name
ORDER BY waited_ns DESC, holder_pid, lock_name
