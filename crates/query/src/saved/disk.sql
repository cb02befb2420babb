SELECT disk_requests.device, disk_requests.kind, tasks.process, count(*) AS requests,
    sum(disk_requests.size_bytes) AS size_bytes, sum(disk_requests.duration_ns) AS busy_ns,
    max(disk_requests.duration_ns) AS longest_ns
FROM disk_requests LEFT JOIN tasks ON tasks.pid = disk_requests.pid
GROUP BY disk_requests.device, disk_requests.kind, tasks.process
ORDER BY busy_ns DESC, disk_requests.device, disk_requests.kind, tasks.process
