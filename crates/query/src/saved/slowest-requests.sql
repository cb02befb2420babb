SELECT r.id, r.name, r.status, r.response_ns, p.part, p.culprit, p.part_ns
FROM (SELECT id, name, status, response_ns FROM requests ORDER BY response_ns DESC, id LIMIT 20) AS r
JOIN (
    SELECT request_id, part, culprit, part_ns,
        row_number() OVER (PARTITION BY request_id ORDER BY part_ns DESC, part, culprit) AS place
    FROM (
        SELECT request_id, part, culprit, sum(duration_ns) AS part_ns
        FROM parts GROUP BY request_id, part, culprit
    ) AS summed
) AS p ON p.request_id = r.id
WHERE p.place <= 3
ORDER BY r.response_ns DESC, r.id, p.place
