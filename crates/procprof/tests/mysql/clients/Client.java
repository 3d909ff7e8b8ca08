// Connector/J as the tests drive it: statements in, canonical rows out.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

public class Client {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private static String text(String value) {
        return value == null ? "NULL" : value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n");
    }

    private static void print(ResultSet rows) throws SQLException {
        int columns = rows.getMetaData().getColumnCount();
        StringBuilder lines = new StringBuilder("> ");
        for (int i = 1; i <= columns; i++) {
            lines.append(i > 1 ? "\t" : "").append(rows.getMetaData().getColumnLabel(i));
        }
        while (rows.next()) {
            lines.append('\n');
            for (int i = 1; i <= columns; i++) {
                lines.append(i > 1 ? "\t" : "").append(text(rows.getString(i)));
            }
        }
        OUT.println(lines);
    }

    private static void answer(Connection connection, String line) throws SQLException {
        String[] parts = line.split("\t", -1);
        if (parts.length > 1) {
            try (PreparedStatement statement = connection.prepareStatement(parts[0])) {
                for (int i = 1; i < parts.length; i++) {
                    statement.setString(i, parts[i]);
                }
                print(statement.executeQuery());
            }
            return;
        }
        try (Statement statement = connection.createStatement()) {
            if (statement.execute(line)) {
                print(statement.getResultSet());
            } else {
                OUT.println("ok");
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("user", System.getenv("SQL_USER"));
        properties.setProperty("password", System.getenv("SQL_PASSWORD"));
        properties.setProperty("useServerPrepStmts", "true");
        String authorities = System.getenv("SQL_CA");
        if (authorities == null || authorities.isEmpty()) {
            properties.setProperty("sslMode", "DISABLED");
            properties.setProperty("allowPublicKeyRetrieval", "true");
        } else {
            properties.setProperty("sslMode", "VERIFY_CA");
            properties.setProperty("trustCertificateKeyStoreUrl", "file:" + System.getenv("SQL_KEY_STORE"));
            properties.setProperty("trustCertificateKeyStoreType", "PKCS12");
            properties.setProperty("trustCertificateKeyStorePassword", "changeit");
        }
        String method = System.getenv("SQL_AUTH");
        if (method != null && !method.isEmpty()) {
            properties.setProperty("defaultAuthenticationPlugin", method);
        }
        String url = "jdbc:mysql://" + System.getenv("SQL_HOST") + ":" + System.getenv("SQL_PORT") + "/";
        try (Connection connection = DriverManager.getConnection(url, properties)) {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                try {
                    answer(connection, line);
                } catch (SQLException error) {
                    OUT.println("! " + error.getErrorCode());
                }
            }
        }
    }
}
