SELECT protocol, question, count(*) AS times, sum(failed) AS failed, sum(duration_ns) AS waited_ns,
    avg(duration_ns) AS mean_ns, max(duration_ns) AS longest_ns
FROM asked
GROUP BY protocol, question
ORDER BY waited_ns DESC, protocol, question
LIMIT 40
