SELECT lock_name, count(*) AS waits, count(DISTINCT pid) AS waiters, sum(duration_ns) AS waited_ns,
    max(duration_ns) AS longest_ns
FROM lock_waits
GROUP BY lock_name
ORDER BY waited_ns DESC, waits DESC
LIMIT 40
