-- Questions beside the saved ones, so that both are more than 30; one a paragraph.

SELECT count(*) AS requests, sum(response_ns) AS response_ns, min(at_ns) AS first_ns, max(at_ns) AS last_ns
FROM requests

SELECT status, outcome, count(*) AS requests, count(client) AS named FROM requests GROUP BY status, outcome

SELECT requests.half, parts.process, sum(parts.duration_ns) AS part_ns
FROM requests LEFT JOIN parts ON parts.request_id = requests.id AND parts.part = 'run'
GROUP BY requests.half, parts.process

SELECT count(*) AS cells, count(lock_name) AS named, count(DISTINCT lock_name) AS locks FROM lock_waits

SELECT waits.cause, tasks.traced, count(*) AS waits, sum(waits.duration_ns) AS waited_ns
FROM waits JOIN tasks ON tasks.pid = waits.pid GROUP BY waits.cause, tasks.traced

SELECT name, upper(substr(name, 1, 4)) AS begin, length(name) AS letters, count(*) AS requests
FROM load_samples GROUP BY name

SELECT lane, count(*) AS events, min(at_ns) AS first_ns, max(at_ns) AS last_ns, sum(a % 1000) AS a
FROM events WHERE kind = 'sched_switch' GROUP BY lane
