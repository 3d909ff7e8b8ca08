-- What tools ask when they connect, list tables and show rows: one statement a line, by tool.
-- Those that are not answered stand at the end, each with the number of its error; docs/sql.md says why.
-- DBeaver
SELECT DATABASE()
SHOW VARIABLES LIKE 'lower_case_table_names'
SELECT @@GLOBAL.character_set_server,@@GLOBAL.collation_server
SHOW ENGINES
SHOW CHARSET
SHOW COLLATION
SHOW PLUGINS
SHOW DATABASES
SELECT * FROM information_schema.SCHEMATA
SHOW FULL TABLES FROM `procprof`
SHOW TABLE STATUS FROM `procprof`
SHOW TABLE STATUS FROM `procprof` LIKE 'profiles'
SHOW TABLE STATUS FROM `procprof` WHERE Name = 'profiles'
SELECT * FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA='procprof' AND t.TABLE_NAME='profiles'
SELECT * FROM information_schema.COLUMNS WHERE TABLE_SCHEMA='procprof' AND TABLE_NAME='profiles' ORDER BY ORDINAL_POSITION
SELECT * FROM INFORMATION_SCHEMA.STATISTICS WHERE TABLE_SCHEMA='procprof' AND TABLE_NAME='profiles' ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX
SELECT kc.CONSTRAINT_NAME, kc.TABLE_NAME, kc.COLUMN_NAME, kc.ORDINAL_POSITION FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE kc WHERE kc.TABLE_SCHEMA='procprof' AND kc.REFERENCED_TABLE_NAME IS NULL AND kc.TABLE_NAME='profiles' ORDER BY kc.CONSTRAINT_NAME,kc.ORDINAL_POSITION
SELECT cc.CONSTRAINT_NAME, cc.CHECK_CLAUSE, tc.TABLE_NAME FROM (SELECT CONSTRAINT_NAME, CHECK_CLAUSE FROM INFORMATION_SCHEMA.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = 'procprof' ORDER BY CONSTRAINT_NAME) cc, (SELECT TABLE_NAME, CONSTRAINT_NAME FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS WHERE CONSTRAINT_TYPE = 'CHECK' AND TABLE_SCHEMA='procprof' AND TABLE_NAME='profiles') tc WHERE cc.CONSTRAINT_NAME = tc.CONSTRAINT_NAME
SELECT * FROM INFORMATION_SCHEMA.PARTITIONS WHERE TABLE_SCHEMA='procprof' AND TABLE_NAME='profiles' ORDER BY PARTITION_ORDINAL_POSITION,SUBPARTITION_ORDINAL_POSITION
SELECT * FROM INFORMATION_SCHEMA.TRIGGERS WHERE TRIGGER_SCHEMA='procprof'
SELECT * FROM information_schema.EVENTS WHERE EVENT_SCHEMA='procprof'
SELECT * FROM INFORMATION_SCHEMA.ROUTINES WHERE ROUTINE_SCHEMA='procprof' AND ROUTINE_TYPE IN ('PROCEDURE','FUNCTION') ORDER BY ROUTINE_NAME
SELECT * FROM INFORMATION_SCHEMA.VIEWS WHERE TABLE_SCHEMA='procprof'
SHOW PRIVILEGES
SHOW GRANTS
SHOW GRANTS FOR CURRENT_USER()
SHOW CREATE TABLE `procprof`.`profiles`
SHOW FULL PROCESSLIST
SHOW GLOBAL STATUS
SHOW GLOBAL VARIABLES
SHOW STATUS LIKE 'Threads%'
SET SQL_SAFE_UPDATES=1
EXPLAIN EXTENDED SELECT * FROM profiles
SELECT count(*) FROM `procprof`.`profiles` x
SELECT x.* FROM procprof.profiles x ORDER BY x.started DESC LIMIT 0, 200
SELECT table_schema, SUM(data_length + index_length) FROM information_schema.tables GROUP BY table_schema
-- DataGrip
select version()
select database()
select schema_name, default_collation_name from information_schema.schemata
select table_name from information_schema.tables where table_schema collate utf8_general_ci = 'information_schema' and table_name collate utf8_general_ci = 'parameters'
select table_name, table_type, table_comment, engine, table_collation, create_options from information_schema.tables where table_schema = 'procprof'
select ordinal_position, column_name, column_type, column_default, generation_expression, table_name, column_comment, is_nullable, extra, collation_name from information_schema.columns where table_schema = 'procprof' order by table_name, ordinal_position
select table_name, auto_increment from information_schema.tables where table_schema = 'procprof' and auto_increment is not null
select table_name, index_name, index_comment, index_type, non_unique, column_name, sub_part, collation, null as expression from information_schema.statistics where table_schema = 'procprof' and index_schema = 'procprof' order by index_schema, table_name, index_name, index_type, seq_in_index
select c.constraint_name, c.constraint_schema, c.table_name, c.constraint_type, false enforced from information_schema.table_constraints c where c.table_schema = 'procprof'
select constraint_name, table_name, column_name, referenced_table_schema, referenced_table_name, referenced_column_name from information_schema.key_column_usage where table_schema = 'procprof' and referenced_column_name is not null order by table_name, constraint_name, ordinal_position
select constraint_name, table_name, unique_constraint_name, update_rule, delete_rule, referenced_table_name from information_schema.referential_constraints where constraint_schema = 'procprof'
select trigger_name, event_object_table, event_manipulation, action_timing, definer from information_schema.triggers where trigger_schema = 'procprof'
select event_name, event_comment, definer, event_type = 'RECURRING' recurring, interval_value, interval_field, cast(coalesce(starts, execute_at) as char) starts, cast(ends as char) ends, status, on_completion = 'PRESERVE' preserve, last_executed from information_schema.events where event_schema = 'procprof'
select routine_name, routine_type, routine_definition, routine_comment, dtd_identifier, definer, is_deterministic = 'YES' is_deterministic, cast(sql_data_access as char(1)) sql_data_access, cast(security_type as char(1)) security_type from information_schema.routines where routine_schema = 'procprof'
select grantee, table_name, column_name, privilege_type, is_grantable from information_schema.column_privileges where table_schema = 'procprof'
select table_name, view_definition, definer from information_schema.views where table_schema = 'procprof'
select collation_name, character_set_name, is_default collate utf8_general_ci = 'Yes' as is_default from information_schema.collations
show variables where variable_name in ('version','lower_case_table_names')
select @@event_scheduler
SET net_write_timeout=600000
select t.* from procprof.profiles t limit 501
SET SQL_SELECT_LIMIT=501
-- Workbench
SHOW SESSION STATUS LIKE 'Ssl_cipher'
SHOW SESSION VARIABLES LIKE 'version_compile_os'
SHOW PROCEDURE STATUS WHERE Db='procprof'
SHOW FUNCTION STATUS WHERE Db='procprof'
SHOW FULL COLUMNS FROM `procprof`.`profiles`
SHOW INDEXES FROM `procprof`.`profiles`
SHOW TRIGGERS FROM `procprof` LIKE 'profiles'
SHOW FULL TABLES FROM `procprof` WHERE Table_type = 'BASE TABLE'
SHOW TABLES WHERE Tables_in_procprof LIKE 'p%'
SHOW DATABASES WHERE `Database` NOT IN ('mysql')
SELECT `SCHEMA_NAME`, `DEFAULT_CHARACTER_SET_NAME` FROM INFORMATION_SCHEMA.SCHEMATA
SELECT * FROM performance_schema.global_status
-- Metabase
SELECT STR_TO_DATE(CONCAT(YEARWEEK(`completed`),' Sunday'),'%X%V %W') w, COUNT(*) FROM `profiles` GROUP BY 1
SELECT @@GLOBAL.time_zone AS global_tz, @@system_time_zone AS system_tz, time_format(timediff(now(), convert_tz(now(), @@GLOBAL.time_zone, '+00:00')), '%H:%i') AS offset
SHOW GRANTS FOR CURRENT_USER
SELECT STR_TO_DATE(DATE_FORMAT(`profiles`.`completed`, '%Y-%m-%d %H:%i'), '%Y-%m-%d %H:%i') AS m, COUNT(*) AS count FROM `profiles` GROUP BY STR_TO_DATE(DATE_FORMAT(`profiles`.`completed`, '%Y-%m-%d %H:%i'), '%Y-%m-%d %H:%i') ORDER BY m ASC
SELECT DATE(`profiles`.`completed`) AS `completed`, COUNT(*) AS `count` FROM `profiles` GROUP BY DATE(`profiles`.`completed`) ORDER BY DATE(`profiles`.`completed`) ASC
SELECT COUNT(*) FROM profiles WHERE completed >= DATE(DATE_ADD(NOW(6), INTERVAL -30 DAY)) AND completed < DATE(NOW(6))
SELECT SUBSTRING(`procprof`.`profiles`.`id`, 1, 1234) AS `substring1` FROM `procprof`.`profiles` LIMIT 10000
SELECT quarter(completed) q, count(*) FROM profiles GROUP BY 1
-- Superset
SELECT DATE_ADD(DATE(completed), INTERVAL (HOUR(completed)*60*60 + MINUTE(completed)*60 + SECOND(completed)) SECOND) AS __timestamp, count(*) FROM profiles GROUP BY 1
SELECT DATE_ADD(DATE(completed), INTERVAL (HOUR(completed)*60 + MINUTE(completed)) MINUTE) AS __timestamp, count(*) FROM profiles GROUP BY 1
SELECT DATE_ADD(DATE(completed), INTERVAL HOUR(completed) HOUR) AS __timestamp, count(*) FROM profiles GROUP BY 1
SELECT DATE(DATE_SUB(completed, INTERVAL DAYOFWEEK(completed) - 1 DAY)) AS w, count(*) FROM profiles GROUP BY 1
SELECT DATE(DATE_SUB(completed, INTERVAL DAYOFMONTH(completed) - 1 DAY)) AS m, count(*) FROM profiles GROUP BY 1
SELECT MAKEDATE(YEAR(completed), 1) + INTERVAL QUARTER(completed) QUARTER - INTERVAL 1 QUARTER AS q, count(*) FROM profiles GROUP BY 1
SELECT count(*) FROM profiles WHERE completed >= STR_TO_DATE('2026-01-01 00:00:00.000000', '%Y-%m-%d %H:%i:%s.%f')
SELECT type AS type, count(*) AS `count` FROM procprof.profiles WHERE completed >= '2026-01-01' GROUP BY type ORDER BY `count` DESC LIMIT 10000
-- Redash
SELECT col.table_schema as table_schema, col.table_name as table_name, col.column_name as column_name FROM `information_schema`.`columns` col WHERE LOWER(col.table_schema) NOT IN ('information_schema', 'performance_schema', 'mysql', 'sys')
SELECT 1
-- Grafana
SELECT UNIX_TIMESTAMP(completed) DIV 300 * 300 AS "time", node AS metric, avg(seconds) AS "value" FROM profiles WHERE completed BETWEEN FROM_UNIXTIME(1494410783) AND FROM_UNIXTIME(1994410983) GROUP BY 1,2 ORDER BY UNIX_TIMESTAMP(completed) DIV 300 * 300
SELECT completed_ns DIV 300000000000 * 300 AS time, COUNT(*) FROM profiles WHERE completed_ns >= 1494410783152415214 AND completed_ns <= 1994497183142514872 GROUP BY 1
SELECT DISTINCT TABLE_SCHEMA from information_schema.TABLES where TABLE_TYPE != 'SYSTEM VIEW' ORDER BY TABLE_SCHEMA
SELECT table_name as table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY table_name
SELECT id AS id, completed AS time, type AS text, CONCAT(node,',',type) AS tags FROM profiles WHERE completed_ns > 1494410783152415214
-- Django
SELECT id FROM profiles WHERE top_function LIKE BINARY '%hot%'
SELECT VERSION(), @@sql_mode, @@default_storage_engine, @@sql_auto_is_null, @@lower_case_table_names, CONVERT_TZ('2001-01-01 01:00:00', 'UTC', 'UTC') IS NOT NULL
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED
SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale, extra, column_default, collation_name, CASE WHEN column_type LIKE '%% unsigned' THEN 1 ELSE 0 END AS is_unsigned FROM information_schema.columns WHERE table_name = 'profiles' AND table_schema = DATABASE()
SELECT table_name, table_collation FROM information_schema.tables WHERE table_schema = DATABASE()
-- Trino
SELECT TABLE_NAME, COLUMN_NAME, SEQ_IN_INDEX, NON_UNIQUE, CARDINALITY FROM INFORMATION_SCHEMA.STATISTICS WHERE TABLE_SCHEMA='procprof'
-- Spark
SELECT * FROM (select * from profiles) SPARK_GEN_SUBQ_0 WHERE 1=0
SELECT * FROM profiles WHERE 1=0
-- Tableau
SHOW TABLES FROM `procprof` LIKE '%'
SELECT SUM(1) AS `COL` FROM `profiles` HAVING COUNT(1) > 0
SELECT `profiles`.`type` AS `type`, ADDDATE(DATE_FORMAT(`profiles`.`completed`, '%Y-%m-%d %H:00:00'), INTERVAL 0 SECOND) AS `thr` FROM `profiles` GROUP BY 2, 1
-- PowerBI
SHOW VARIABLES
SHOW COLLATION WHERE Id IS NOT NULL
SELECT TIMEDIFF(NOW(), UTC_TIMESTAMP())
-- ProxySQL
SELECT @@global.read_only read_only
SHOW SLAVE STATUS
SET wait_timeout=2000
-- NET MySqlConnector
SELECT CONNECTION_ID(), VERSION(), @@version_comment
-- NET Connector
SHOW VARIABLES WHERE Variable_name IN ('character_set_client','max_allowed_packet')
-- Flyway
SELECT EXISTS(SELECT 1 FROM information_schema.tables WHERE table_schema='procprof')
-- HeidiSQL
SHOW /*!50002 GLOBAL */ STATUS LIKE 'Com\_%'
SELECT `DEFAULT_COLLATION_NAME` FROM `information_schema`.`SCHEMATA` WHERE `SCHEMA_NAME`='procprof'
SELECT *, EVENT_SCHEMA AS `Db`, EVENT_NAME AS `Name` FROM information_schema.`EVENTS` WHERE `EVENT_SCHEMA`='procprof'
SELECT `CONSTRAINT_NAME`, `CHECK_CLAUSE` FROM `information_schema`.`CHECK_CONSTRAINTS` WHERE `CONSTRAINT_SCHEMA`='procprof'
SELECT * FROM `information_schema`.`REFERENTIAL_CONSTRAINTS` WHERE CONSTRAINT_SCHEMA='procprof'
-- phpMyAdmin
SELECT @@version, @@version_comment
SHOW SESSION VARIABLES LIKE 'collation_connection'
SELECT CURRENT_USER()
SELECT `SCHEMA_NAME` FROM `INFORMATION_SCHEMA`.`SCHEMATA` ORDER BY `SCHEMA_NAME` LIMIT 0, 100
SELECT *, `TABLE_SCHEMA` AS `Db`, `TABLE_NAME` AS `Name`, `DATA_LENGTH` AS `Data_length`, `INDEX_LENGTH` AS `Index_length`, `MAX_DATA_LENGTH` AS `Max_data_length`, `DATA_FREE` AS `Data_free`, `CHECK_TIME` AS `Check_time`, `CHECKSUM` AS `Checksum` FROM `information_schema`.`TABLES` t WHERE `TABLE_SCHEMA` IN ('procprof')
SELECT COUNT(*) FROM `procprof`.`profiles`
-- StarRocks-FE-client
SHOW CATALOGS
SET CATALOG default_catalog
SHOW WAREHOUSES
SELECT current_version()
SHOW PROC '/'
SHOW BROKER
SHOW USERS
SELECT @@version_comment LIMIT 1
-- Connector/ODBC
SET NAMES utf8mb4
SET SQL_AUTO_IS_NULL = 0
SET character_set_results = NULL
SHOW FULL COLUMNS FROM `procprof`.`profiles` LIKE '%'
-- Hibernate
SELECT WORD FROM INFORMATION_SCHEMA.KEYWORDS WHERE WORD NOT IN ('ABS', 'ALL') ORDER BY WORD
-- DBD::mysql
DESCRIBE `profiles` '%'
SHOW INDEX FROM `profiles`
-- not answered
1146: SELECT * FROM mysql.user ORDER BY user
1064: EXPLAIN FORMAT=JSON SELECT * FROM profiles
1146: select Host, User from mysql.user
1305: SELECT quote_ident(table_name) FROM information_schema.tables LIMIT 1
