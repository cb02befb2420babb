SELECT process, part, count(DISTINCT request_id) AS requests, sum(duration_ns) AS part_ns
FROM parts
WHERE process IS NOT NULL
GROUP BY process, part
ORDER BY part_ns DESC, process, part
