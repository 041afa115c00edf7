import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ForkJoinPool;
import java.util.function.IntBinaryOperator;
import java.util.function.IntUnaryOperator;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** The load of java: compiled and interpreted methods, garbage, lambdas, streams, strings, exceptions, threads. */
public class Load {
	static int fib(int n) {
		return n < 2 ? n : fib(n - 1) + fib(n - 2);
	}

	interface Shape {
		double area();
	}

	record Square(double a) implements Shape {
		public double area() {
			return a * a;
		}
	}

	record Circle(double r) implements Shape {
		public double area() {
			return Math.PI * r * r;
		}
	}

	static double garbage() {
		List<Shape> shapes = new ArrayList<>();
		for (int i = 0; i < 20000; i++)
			shapes.add(i % 2 == 0 ? new Square(i) : new Circle(i));
		double sum = 0;
		for (Shape s : shapes)
			sum += s.area();
		return sum;
	}

	static int strings() {
		StringBuilder b = new StringBuilder();
		for (int i = 0; i < 5000; i++)
			b.append("row ").append(i).append(String.format(" %05d", i)).append('\n');
		Map<String, Integer> count = new HashMap<>();
		for (String word : Pattern.compile("\\s+").split(b))
			count.merge(word, 1, Integer::sum);
		return count.size();
	}

	static long streams() {
		return IntStream.range(0, 20000).boxed().collect(Collectors.groupingBy(i -> i % 17, Collectors.counting()))
				.values().stream().mapToLong(Long::longValue).sum();
	}

	static int thrown(int n) {
		if (n == 0)
			throw new IllegalStateException("at the bottom");
		try {
			return thrown(n - 1);
		} finally {
			n++;
		}
	}

	static int exceptions() {
		int frames = 0;
		for (int i = 0; i < 200; i++) {
			try {
				thrown(i % 40);
			} catch (IllegalStateException e) {
				frames += e.getStackTrace().length;
			}
		}
		return frames;
	}

	static double parallel() {
		double[] a = IntStream.range(0, 100000).parallel().mapToDouble(Math::sqrt).toArray();
		java.util.Arrays.parallelSort(a);
		return a[a.length / 2];
	}

	/** Natives: copies and system calls that the JVM calls through its wrappers. */
	static int natives() {
		int n = 0;
		byte[] from = new byte[1 << 16], to = new byte[1 << 16];
		for (int i = 0; i < 50; i++) {
			System.arraycopy(from, 0, to, 1, from.length - 1);
			n += new java.io.File("/proc/self").list().length;
		}
		return n + to.length;
	}

	static long sink;

	static void work(long end) {
		IntUnaryOperator twice = x -> 2 * x;
		IntBinaryOperator add = (a, b) -> a + b;
		while (System.currentTimeMillis() < end) {
			sink += fib(22) + (long) garbage() + strings() + streams() + exceptions() + (long) parallel() + natives();
			sink += add.applyAsInt(twice.applyAsInt(3), 4);
		}
	}

	public static void main(String[] args) throws Exception {
		long end = System.currentTimeMillis() + 1000 * Long.parseLong(args[0]);
		Thread second = new Thread(() -> work(end), "second");
		second.start();
		work(end);
		second.join();
		ForkJoinPool.commonPool().shutdown();
		System.out.println(sink);
	}
}
