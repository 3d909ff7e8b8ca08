/** Two threads, one waiting for the other's lock: what jstack prints of them is read in the tests. */
public final class Threads {
    private static final Object LOCK = new Object();

    public static void main(String[] arguments) throws Exception {
        synchronized (LOCK) {
            Thread waiting = new Thread(Threads::takeLock, "waiting");
            waiting.setDaemon(true);
            waiting.start();
            while (waiting.getState() != Thread.State.BLOCKED) {
                Thread.onSpinWait();
            }
            System.out.println("ready");
            Thread.sleep(60_000);
        }
    }

    private static void takeLock() {
        synchronized (LOCK) {
            System.out.println("taken");
        }
    }
}
