# Perl's DBI by both of its drivers: each begins a session, reads, and prints `ok NAME`, a tab and its version, or why not.
use strict;
use warnings;
use DBI;

my @TABLES = qw(captures diff errors functions nodes profiles samples stacks timeline top);
my $QUERY = 'SELECT id, role FROM nodes WHERE id = ? AND name <> ?';

# Compares rows, columns of rows, or values.
sub same {
    my ($found, $expected) = map { join ';', map { DBI::neat_list(ref $_ ? $_ : [$_], 10_000) } ref $_ ? @$_ : $_ } @_;
    die "$found instead of $expected" if $found ne $expected;
}

sub session {
    my ($driver, %options) = @_;
    my $source = "DBI:$driver:database=procprof;host=$ENV{SQL_HOST};port=$ENV{SQL_PORT}";
    $source .= ';' . lc($driver) . "_$_=$options{$_}" for sort keys %options;
    my %attributes = (RaiseError => 1, PrintError => 0, AutoCommit => 0);
    my $database = DBI->connect($source, $ENV{SQL_USER}, $ENV{SQL_PASSWORD}, \%attributes);
    for (1, 2) {
        my $statement = $database->prepare($QUERY);
        $statement->execute(10001, "it's\\");
        same($statement->fetchall_arrayref, [[10001, 'BE']]);
    }
    $database->commit;
    $database->rollback;
    $database->{AutoCommit} = 1;
    same($database->selectall_arrayref('SELECT @@autocommit, LENGTH(?), NULL', {}, 'ab' x 100_000), [[1, 200_000, undef]]);
    eval { $database->selectall_arrayref('SELECT absent FROM nodes') };
    same([$database->err, $database->state], [1054, '42S22']);
    my $tables = $database->table_info(undef, 'procprof', '%', undef)->fetchall_arrayref({});
    same([sort map { $_->{TABLE_NAME} } @$tables], \@TABLES);
    my $schemas = $database->table_info('', '%', '', '')->fetchall_arrayref({});
    same([sort map { $_->{TABLE_SCHEM} } @$schemas], [qw(information_schema performance_schema procprof)]);
    my $columns = $database->column_info(undef, 'procprof', 'nodes', '%')->fetchall_arrayref({});
    same([map { "$_->{COLUMN_NAME} $_->{TYPE_NAME}" } @$columns[0, 1]], ['id BIGINT', 'name VARCHAR']);
    $columns = $database->column_info(undef, undef, 'nodes', 'ro%')->fetchall_arrayref({});
    same([map { $_->{COLUMN_NAME} } @$columns], ['role']);
    same($database->primary_key_info(undef, 'procprof', 'nodes')->fetchall_arrayref, []);
    same($database->foreign_key_info(undef, undef, undef, undef, 'procprof', 'nodes')->fetchall_arrayref, []);
    same($database->statistics_info(undef, 'procprof', 'nodes', 0, 1)->fetchall_arrayref, []);
    my $statement = $database->prepare('SELECT id, name FROM nodes WHERE 1 = 0');
    $statement->execute;
    same([map { $_ } @{ $statement->{NAME} }], ['id', 'name']);
    $statement->finish;
    die 'no ping' unless $database->ping;
    $database->disconnect;
}

for my $driver ('MariaDB', 'mysql') {
    my $done = eval {
        session($driver, %$_) for { server_prepare => 0 }, { server_prepare => 1 }, { compression => 1 };
        1;
    };
    print $done ? "ok DBD::$driver\tDBD::$driver " . "DBD::$driver"->VERSION . "\n" : "failed DBD::$driver $@\n";
}
