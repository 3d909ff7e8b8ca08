import java.util.HashMap;
import java.util.Map;

/** The work of the demo's frontend: CPU in a known 70 / 30 split, allocations, and threads that wait for one lock. */
public class DemoFrontend {
    static final Object CATALOG = new Object();
    static volatile long sink;

    static void planQuery() {
        long state = sink;
        for (int i = 0; i < 700_000; i++) state = state * 31 + i;
        sink = state;
    }

    static void parseStatement() {
        long state = sink;
        for (int i = 0; i < 300_000; i++) state = state * 31 + i;
        sink = state;
    }

    static void cacheResults(Map<Integer, byte[]> cache, int round) {
        cache.put(round % 1000, new byte[16 << 10]);
    }

    static void loadTables() {
        synchronized (CATALOG) {
            rest(6);
        }
    }

    static void readTable() {
        synchronized (CATALOG) {
            sink++;
        }
    }

    static void rest(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    static void start(String name, Runnable body) {
        Thread thread = new Thread(() -> {
            while (true) body.run();
        }, name);
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] arguments) throws Exception {
        Map<Integer, byte[]> cache = new HashMap<>();
        int[] round = {0};
        start("demo-planner", () -> {
            long end = System.nanoTime() + 60_000_000;
            while (System.nanoTime() < end) {
                planQuery();
                parseStatement();
            }
            rest(60);
        });
        start("demo-cache", () -> {
            cacheResults(cache, round[0]++);
            rest(1);
        });
        start("demo-loader", () -> {
            loadTables();
            rest(6);
        });
        start("demo-reader", () -> {
            readTable();
            rest(1);
        });
        System.out.println("ready");
        // The demo ends with the server, which holds the other end.
        while (System.in.read() >= 0) { }
        System.exit(0);
    }
}
