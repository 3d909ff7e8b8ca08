// Hibernate ORM with Connector/J: starts as it does by itself, reads by HQL, and prints `ok Hibernate ORM`, a tab and its
// version, or why not.

import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.util.List;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.Version;
import org.hibernate.annotations.Immutable;
import org.hibernate.cfg.Configuration;

public class Hibernate {
    @Entity(name = "Node")
    @Immutable
    @Table(name = "nodes")
    public static class Node {
        @Id private long id;
        private String name;
        private String role;
    }

    @Entity(name = "Profile")
    @Immutable
    @Table(name = "profiles")
    public static class Profile {
        @Id private String id;
        private long node;
        private String type;
        private Double seconds;
        private java.time.LocalDateTime completed;
    }

    private static void same(Object found, Object expected) {
        if (!found.equals(expected)) {
            throw new AssertionError(found + " instead of " + expected);
        }
    }

    private static void session() {
        Configuration configuration = new Configuration().addAnnotatedClass(Node.class).addAnnotatedClass(Profile.class);
        String address = System.getenv("SQL_HOST") + ":" + System.getenv("SQL_PORT");
        configuration.setProperty("hibernate.connection.url", "jdbc:mysql://" + address + "/procprof?sslMode=DISABLED&allowPublicKeyRetrieval=true");
        configuration.setProperty("hibernate.connection.username", System.getenv("SQL_USER"));
        configuration.setProperty("hibernate.connection.password", System.getenv("SQL_PASSWORD"));
        try (SessionFactory factory = configuration.buildSessionFactory(); Session session = factory.openSession()) {
            session.beginTransaction();
            session.setDefaultReadOnly(true);
            same(session.find(Node.class, 10001L).role, "BE");
            var named = session.createQuery("select n.id from Node n where lower(n.name) like :name and n.role = :role", Long.class);
            same(named.setParameter("name", "%be%").setParameter("role", "BE").getResultList(), List.of(10001L));
            String joined = "select n.name, count(p), max(p.completed) from Node n left join Profile p on p.node = n.id and p.seconds > :seconds "
                + "where n.id = 10001 group by n.name order by n.name";
            List<Object[]> rows = session.createQuery(joined, Object[].class).setParameter("seconds", 1e9).setMaxResults(5).getResultList();
            same(rows.size() + " " + rows.get(0)[1], "1 0");
            same(session.createQuery("from Node n order by n.id", Node.class).setFirstResult(0).setMaxResults(1).getResultList().size(), 1);
            same(session.createNativeQuery("SELECT REPEAT('größe', 100000)", String.class).getSingleResult().length(), 500000);
            session.getTransaction().commit();
        }
    }

    public static void main(String[] arguments) {
        try {
            session();
            System.out.println("ok Hibernate ORM\tHibernate ORM " + Version.getVersionString());
        } catch (Throwable error) {
            System.out.print("failed Hibernate ORM " + Version.getVersionString() + " ");
            error.printStackTrace(System.out);
        }
    }
}
