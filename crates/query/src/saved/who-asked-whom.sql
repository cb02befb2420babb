SELECT interaction, requester_class, coalesce(requester_process, requester) AS asks, object_class, count(*) AS times,
    sum(coalesce(waited_ns, 0)) AS all_waited_ns, sum(coalesce(used_ns, 0)) AS all_used_ns,
    max(coalesce(waited_ns, 0) + coalesce(used_ns, 0)) AS longest_ns
FROM (
    SELECT interactions.interaction, requester_class, requester, tasks.process AS requester_process, object_class,
        waited_ns, used_ns
    FROM interactions LEFT JOIN tasks ON requester_class = 'task' AND tasks.pid = requester_id
) AS told
GROUP BY interaction, requester_class, coalesce(requester_process, requester), object_class
ORDER BY all_used_ns DESC, all_waited_ns DESC, interaction, requester_class, asks, object_class
LIMIT 50
