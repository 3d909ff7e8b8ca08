import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Works for some seconds, in threads with names: sorts, allocates, and waits for a monitor, a lock, and a worker of a
 * pool, which is idle between tasks.
 */
public class Work {
    static final Object MONITOR = new Object();
    static final ReentrantLock LOCK = new ReentrantLock();
    static volatile Object kept;

    static void sort() {
        int[] numbers = new java.util.Random(1).ints(20_000).toArray();
        java.util.Arrays.sort(numbers);
        kept = numbers;
    }

    static void allocate() {
        kept = new byte[8192];
    }

    static void holdMonitor() {
        synchronized (MONITOR) {
            nap(2);
        }
    }

    static void holdLock() {
        LOCK.lock();
        try {
            nap(2);
        } finally {
            LOCK.unlock();
        }
    }

    static void waitForWorker(ExecutorService pool) {
        try {
            pool.submit(() -> nap(2)).get();
        } catch (Exception ended) {
            throw new IllegalStateException(ended);
        }
        nap(2);
    }

    static void nap(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException ended) {
            throw new IllegalStateException(ended);
        }
    }

    static void start(String name, Runnable work) {
        Thread thread = new Thread(() -> { while (true) work.run(); }, name);
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] arguments) {
        start("sorter", Work::sort);
        start("allocator", () -> { for (int i = 0; i < 100; i++) allocate(); nap(1); });
        for (String name : new String[] {"monitor-1", "monitor-2"}) start(name, Work::holdMonitor);
        for (String name : new String[] {"lock-1", "lock-2"}) start(name, Work::holdLock);
        ExecutorService pool = Executors.newFixedThreadPool(1, task -> {
            Thread worker = new Thread(task, "worker");
            worker.setDaemon(true);
            return worker;
        });
        start("client", () -> waitForWorker(pool));
        nap(1000L * Long.parseLong(arguments[0]));
    }
}
