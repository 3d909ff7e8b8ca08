import java.util.Scanner;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Allocates much before it prints "ready", then steadily, and counts the bytes. Commands on standard input: "count"
 * prints what each thread has allocated; "born" starts one more thread; "late" has a thread that has waited since it
 * allocated much allocate 64 MiB more.
 */
public class Allocate {
    static final long MIB = 1 << 20;
    static final int PIECE = 16 << 10;
    static final String[] NAMES = {"steady", "late", "born", "virtual"};
    static final AtomicLong[] COUNTS = {new AtomicLong(), new AtomicLong(), new AtomicLong(), new AtomicLong()};
    static volatile Object kept;

    static void allocate(int index, long bytes) {
        for (long left = bytes; left > 0; left -= PIECE) {
            kept = new byte[PIECE];
            COUNTS[index].addAndGet(PIECE);
        }
    }

    /** Few buffers a second, so that the recorder samples each. */
    static void allocateSlowly(int index, long bytes) {
        for (long left = bytes; left > 0; left -= 4 * PIECE) {
            allocate(index, 4 * PIECE);
            try {
                Thread.sleep(1);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    static Thread start(int index, Runnable body) {
        Thread thread = new Thread(body, NAMES[index]);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    static void waitFor(int index, long bytes) throws Exception {
        while (COUNTS[index].get() < bytes) Thread.sleep(1);
    }

    public static void main(String[] arguments) throws Exception {
        Object signal = new Object();
        start(0, () -> { allocate(0, 4096 * MIB); allocateSlowly(0, Long.MAX_VALUE); });
        start(1, () -> {
            allocate(1, 2048 * MIB);
            while (true) {
                try {
                    synchronized (signal) { signal.wait(); }
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
                allocateSlowly(1, 64 * MIB);
            }
        });
        if (Runtime.version().feature() >= 21) {
            Runnable body = () -> { allocate(3, 2048 * MIB); allocateSlowly(3, Long.MAX_VALUE); };
            Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, body);
            waitFor(3, 2048 * MIB);
        }
        waitFor(0, 4096 * MIB);
        waitFor(1, 2048 * MIB);
        System.out.println("ready");
        Scanner commands = new Scanner(System.in);
        while (commands.hasNextLine()) {
            switch (commands.nextLine()) {
                case "born" -> start(2, () -> allocateSlowly(2, Long.MAX_VALUE));
                case "late" -> { synchronized (signal) { signal.notifyAll(); } }
                default -> {
                    StringBuilder line = new StringBuilder();
                    for (AtomicLong count : COUNTS) line.append(count.get()).append(' ');
                    System.out.println(line);
                }
            }
        }
    }
}
