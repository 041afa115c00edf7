import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/** Calls methods in a known order, for args[0] ms of CPU time: main, a, rec 21 times, b, c, leaf. */
public class Calls {
	static volatile long sink;

	static int leaf(int n) {
		int s = n;
		for (int i = 0; i < 40; i++)
			s = s * 31 + i;
		return s;
	}

	static int c(int n) { return leaf(n) + leaf(n + 1); }
	static int b(int n) { return c(n) ^ 5; }
	static int rec(int k, int n) { return k == 0 ? b(n) : rec(k - 1, n + 1) + 1; }
	static int a(int n) { return rec(20, n) + 3; }

	public static void main(String[] args) {
		ThreadMXBean threads = ManagementFactory.getThreadMXBean();
		long end = threads.getCurrentThreadCpuTime() + 1000000 * Long.parseLong(args[0]);
		while (threads.getCurrentThreadCpuTime() < end)
			for (int i = 0; i < 1000; i++)
				sink += a(i);
	}
}
