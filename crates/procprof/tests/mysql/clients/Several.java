// A JDBC driver, named by its URL's first words: it begins sessions as it does by itself, reads, and prints
// `ok URL`, a tab and its version, or why not.

import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

public class Several {
    private static void same(Object found, Object expected) {
        if (!found.equals(expected)) {
            throw new AssertionError(found + " instead of " + expected);
        }
    }

    private static List<String> column(ResultSet rows, String name) throws Exception {
        List<String> values = new ArrayList<>();
        while (rows.next()) {
            values.add(rows.getString(name));
        }
        return values;
    }

    private static String version;

    private static void session(String url, Properties properties) throws Exception {
        try (Connection connection = DriverManager.getConnection(url, properties)) {
            try (PreparedStatement statement = connection.prepareStatement("SELECT id, role FROM nodes WHERE id = ? AND name <> ?")) {
                statement.setLong(1, 10001);
                statement.setString(2, "it's\\");
                ResultSet rows = statement.executeQuery();
                rows.next();
                same(rows.getLong(1) + rows.getString("role"), "10001BE");
            }
            connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
            same(connection.getTransactionIsolation(), Connection.TRANSACTION_READ_COMMITTED);
            connection.setReadOnly(true);
            connection.setReadOnly(false);
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                statement.setMaxRows(1);
                statement.setQueryTimeout(60);
                ResultSet rows = statement.executeQuery("SELECT id FROM nodes");
                same(column(rows, "id").size(), 1);
            }
            try (Statement statement = connection.createStatement()) {
                ResultSet rows = statement.executeQuery("SELECT COUNT(*), SUM(seconds), CONCAT(type, 1) FROM profiles WHERE 1 = 0 GROUP BY type");
                same(rows.getMetaData().getColumnType(1), java.sql.Types.BIGINT);
                same(rows.getMetaData().getColumnType(2), java.sql.Types.DOUBLE);
                rows = statement.executeQuery("SELECT REPEAT('größe', 100000) AS t");
                rows.next();
                same(rows.getString(1).length(), 500000);
            }
            connection.commit();
            connection.setAutoCommit(true);
            same(connection.isValid(30), true);
            DatabaseMetaData metadata = connection.getMetaData();
            version = metadata.getDriverVersion().replaceFirst("^\\D*([\\d.]+).*$", "$1");
            same(column(metadata.getCatalogs(), "TABLE_CAT").contains("procprof"), true);
            same(column(metadata.getTables("procprof", null, "n%", new String[] {"TABLE"}), "TABLE_NAME"), List.of("nodes"));
            same(column(metadata.getColumns("procprof", null, "nodes", "%"), "COLUMN_NAME").subList(0, 2), List.of("id", "name"));
            same(column(metadata.getPrimaryKeys("procprof", null, "nodes"), "COLUMN_NAME").size(), 0);
            same(column(metadata.getIndexInfo("procprof", null, "nodes", false, true), "INDEX_NAME").size(), 0);
            same(column(metadata.getImportedKeys("procprof", null, "nodes"), "FKTABLE_NAME").size(), 0);
            same(column(metadata.getProcedures("procprof", null, "%"), "PROCEDURE_NAME").size(), 0);
        }
    }

    public static void main(String[] arguments) {
        String name = arguments[0] + " " + arguments[1];
        String address = System.getenv("SQL_HOST") + ":" + System.getenv("SQL_PORT") + "/procprof";
        for (String option : new String[] {"useServerPrepStmts=false", "useServerPrepStmts=true", "useCompression=true", "useInformationSchema=true"}) {
            Properties properties = new Properties();
            properties.setProperty("user", System.getenv("SQL_USER"));
            properties.setProperty("password", System.getenv("SQL_PASSWORD"));
            properties.setProperty("allowPublicKeyRetrieval", "true");
            properties.setProperty("useSSL", "false");
            try {
                session(arguments[0] + "//" + address + "?" + option, properties);
            } catch (Throwable error) {
                System.out.print("failed " + name + " " + option + " ");
                error.printStackTrace(System.out);
                return;
            }
        }
        String vendor = arguments[0].equals("jdbc:mariadb:") ? "MariaDB" : "MySQL";
        System.out.println("ok " + name + "\t" + vendor + " Connector/J " + version);
    }
}
