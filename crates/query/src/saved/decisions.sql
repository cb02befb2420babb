SELECT at_ns, kind, words
FROM decisions
ORDER BY at_ns, kind, words
