SELECT application, name, told_by, sum(CASE WHEN goes_on = 0 THEN 1 ELSE 0 END) AS times,
    sum(duration_ns) AS at_it_ns, max(duration_ns) AS longest_stretch_ns
FROM transactions
GROUP BY application, name, told_by
ORDER BY at_it_ns DESC, application, name
