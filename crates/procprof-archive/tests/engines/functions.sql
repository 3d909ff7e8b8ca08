-- The functions with the most CPU time, their own and with what they call.
WITH sums AS (
    SELECT stack, sum(value) AS value
    FROM read_parquet('samples/*/*/*.parquet', hive_partitioning = true)
    WHERE type = 'cpu' AND kind = 'cpu'
    GROUP BY stack
), named AS (
    SELECT s.stack, s.last, s.recursive, f.function
    FROM read_parquet('stacks/*/*/*.parquet') s
    JOIN read_parquet('frames/*/*/*.parquet') f USING (frame)
), own AS (
    SELECT function, sum(value) AS value FROM named JOIN sums USING (stack) GROUP BY function
), with_callees AS (
    SELECT function, sum(value) AS value
    FROM named JOIN sums ON sums.stack BETWEEN named.stack AND named.last
    WHERE NOT recursive
    GROUP BY function
)
SELECT function, coalesce(own.value, 0) AS own, with_callees.value AS with_callees
FROM with_callees LEFT JOIN own USING (function)
ORDER BY own DESC, function
