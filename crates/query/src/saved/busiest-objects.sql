SELECT interaction, class, name, accepts, coalesce(used_ns, 0) AS busy_ns, coalesce(waited_ns, 0) AS waited_for_ns,
    100.0 * coalesce(used_ns, 0) / (SELECT max(duration_ns) FROM run) AS percent
FROM objects
ORDER BY busy_ns DESC, waited_for_ns DESC, interaction, class, name
LIMIT 50
