// Causes N: N requests, from statfs to utimensat, each with one cause, whose name it prints.
import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.ReentrantLock;

public class Causes {
    static final ReentrantLock lock = new ReentrantLock();
    static final Object monitor = new Object();
    static volatile long result;

    interface Cause { void run() throws Exception; }

    static void causeCPU() {
        long x = 1;
        for (long until = System.nanoTime() + 20_000_000; System.nanoTime() < until;)
            for (int i = 0; i < 1000; i++)
                x = x * 31 + i;
        result = x;
    }

    static void causeSleep() throws Exception { Thread.sleep(20); }

    static void causeLock() {
        lock.lock();
        lock.unlock();
    }

    static void causeMonitor() {
        synchronized (monitor) {
            result++;
        }
    }

    static Socket server;

    static void causeDependency() throws IOException {
        server.getOutputStream().write(1);
        server.getInputStream().read();
    }

    static void serve(ServerSocket s) {
        try (Socket c = s.accept()) {
            while (c.getInputStream().read() >= 0) {
                Thread.sleep(20);
                c.getOutputStream().write(1);
            }
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
    }

    // hold returns once a thread holds what a cause waits for, for 20 ms.
    static Thread hold(String cause) throws Exception {
        CountDownLatch held = new CountDownLatch(1);
        Thread t = new Thread(() -> {
            try {
                if (cause.equals("causeLock")) {
                    lock.lock();
                    held.countDown();
                    Thread.sleep(20);
                    lock.unlock();
                } else {
                    synchronized (monitor) {
                        held.countDown();
                        Thread.sleep(20);
                    }
                }
            } catch (InterruptedException e) {
                throw new RuntimeException(e);
            }
        });
        t.start();
        held.await();
        return t;
    }

    public static void main(String[] args) throws Exception {
        ServerSocket s = new ServerSocket(0);
        Thread serving = new Thread(() -> serve(s));
        serving.setDaemon(true);
        serving.start();
        server = new Socket("127.0.0.1", s.getLocalPort());
        File here = File.createTempFile("causes", "");
        here.deleteOnExit();
        Thread.sleep(1000);
        String[] names = {"causeCPU", "causeSleep", "causeLock", "causeMonitor", "causeDependency"};
        Cause[] causes = {Causes::causeCPU, Causes::causeSleep, Causes::causeLock, Causes::causeMonitor,
            Causes::causeDependency};
        for (int i = 0; i < Integer.parseInt(args[0]); i++) {
            String name = names[i % names.length];
            System.out.println(name);
            Thread holder = name.equals("causeLock") || name.equals("causeMonitor") ? hold(name) : null;
            here.getFreeSpace();
            causes[i % causes.length].run();
            here.setLastModified(0);
            if (holder != null)
                holder.join();
        }
    }
}
