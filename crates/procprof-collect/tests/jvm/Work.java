/** Spends CPU time in `spend`, allocates in `allocate`, and has two threads wait for one lock in `contend`. */
public class Work {
    static final Object LOCK = new Object();
    static volatile long sink;
    static volatile Object kept;

    static void spend() {
        for (int i = 0; i < 100_000; i++) sink = sink * 31 + i;
    }

    static void allocate() {
        kept = new byte[16 << 10];
    }

    static void contend() {
        synchronized (LOCK) {
            nap(1);
        }
    }

    static void nap(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static void start(String name, Runnable body) {
        Thread thread = new Thread(() -> { while (true) body.run(); }, name);
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] arguments) throws Exception {
        start("spender", () -> { spend(); nap(1); });
        start("allocator", () -> { for (int i = 0; i < 10; i++) allocate(); nap(1); });
        start("waiter-1", Work::contend);
        start("waiter-2", Work::contend);
        System.out.println("ready");
        System.in.read();
    }
}
