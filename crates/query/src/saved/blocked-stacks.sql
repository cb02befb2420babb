SELECT process, stack, count(*) AS waits
FROM samples
WHERE state = 'blocked'
GROUP BY process, stack
ORDER BY waits DESC, process, stack
LIMIT 40
