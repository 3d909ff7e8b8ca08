-- The sums of each profile, from its samples and as stored beside them.
SELECT p.id, s.kind, sum(s.value) AS value, any_value(p.totals[s.kind]) AS total
FROM read_parquet('samples/*/*/*.parquet', hive_partitioning = true) s
JOIN read_parquet('profiles/*/*/*.parquet', hive_partitioning = true) p USING (profile)
GROUP BY p.id, s.kind
ORDER BY p.id, s.kind
