SELECT source, kind, count(*) AS events
FROM events
GROUP BY source, kind
ORDER BY events DESC, source, kind
