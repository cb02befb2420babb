SELECT CASE WHEN joined = 1 THEN 'joined' ELSE unjoinable END AS why, count(*) AS requests,
    100.0 * count(*) / (SELECT count(*) FROM requests) AS percent
FROM requests
GROUP BY CASE WHEN joined = 1 THEN 'joined' ELSE unjoinable END
ORDER BY requests DESC, why
