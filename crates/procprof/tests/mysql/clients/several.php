<?php
// PHP's mysqlnd, by mysqli and PDO: each begins a session, reads, and prints `ok SESSION`, a tab and
// its version, or why not.
[$host, $port, $user, $password] = [getenv('SQL_HOST'), (int) getenv('SQL_PORT'), getenv('SQL_USER'), getenv('SQL_PASSWORD')];
const QUERY = 'SELECT id, role FROM nodes WHERE id = ? AND name <> ?';
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);

function same($found, $expected): void
{
    if ($found != $expected) {
        throw new Exception(var_export($found, true) . ' instead of ' . var_export($expected, true));
    }
}

$sessions = [
    'mysqli' => function () use ($host, $port, $user, $password) {
        foreach ([0, MYSQLI_CLIENT_COMPRESS] as $flags) {
            $connection = mysqli_init();
            $connection->real_connect($host, $user, $password, 'procprof', $port, null, $flags);
            $connection->set_charset('utf8mb4');
            $statement = $connection->prepare(QUERY);
            $statement->execute([10001, "it's\\"]);
            same($statement->get_result()->fetch_all(), [[10001, 'BE']]);
            $connection->autocommit(false);
            $connection->begin_transaction(MYSQLI_TRANS_START_READ_ONLY);
            same(strlen($connection->query("SELECT REPEAT('ab', 100000)")->fetch_row()[0]), 200000);
            $connection->commit();
            $connection->change_user($user, $password, 'procprof');
            same($connection->query('SELECT DATABASE()')->fetch_row()[0], 'procprof');
            $connection->close();
        }
    },
    'PDO' => function () use ($host, $port, $user, $password) {
        foreach ([true, false] as $emulated) {
            $options = [PDO::ATTR_EMULATE_PREPARES => $emulated, PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION];
            $connection = new PDO("mysql:host=$host;port=$port;dbname=procprof;charset=utf8mb4", $user, $password, $options);
            $statement = $connection->prepare(QUERY);
            $statement->execute([10001, "it's\\"]);
            same($statement->fetchAll(PDO::FETCH_NUM), [[10001, 'BE']]);
            $connection->beginTransaction();
            same($connection->inTransaction(), true);
            $connection->rollBack();
            same($connection->inTransaction(), false);
        }
    },
];
foreach ($sessions as $name => $run) {
    try {
        $run();
        // The release's: its fixes change the last part.
        $version = preg_replace('/^(\d+\.\d+).*/', '$1', phpversion($name === 'PDO' ? 'pdo_mysql' : $name));
        echo "ok $name\t$name $version\n";
    } catch (Throwable $error) {
        echo "failed $name $error\n";
    }
}
