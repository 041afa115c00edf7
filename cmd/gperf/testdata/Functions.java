// Known functions: the comment of each line names its function and, after >, those that it calls.
// A sample is right if the innermost function is at a line of its own, and each caller at a line that calls the next one.
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.function.LongUnaryOperator;

public class Functions {
	static long sink;

	static long spin(int n) { // Functions.spin
		long t = 0; // Functions.spin
		for (int i = 0; i < n; i++) { // Functions.spin
			t += (long)i * i % 7; // Functions.spin
		} // Functions.spin
		return t; // Functions.spin
	} // Functions.spin

	static long inner(int n) { // Functions.inner
		return spin(n); // Functions.inner > Functions.spin
	} // Functions.inner

	static long deep(int d, int n) { // Functions.deep
		if (d == 0) { // Functions.deep
			return inner(n); // Functions.deep > Functions.inner
		} // Functions.deep
		return deep(d - 1, n) + 1; // Functions.deep > Functions.deep
	} // Functions.deep

	static class Größe {
		long berechneGröße数(int n) { // Functions$Größe.berechneGröße数
			return spin(n); // Functions$Größe.berechneGröße数 > Functions.spin
		} // Functions$Größe.berechneGröße数
	}

	interface Shape {
		long area(int n);
	}

	static class Circle implements Shape {
		public long area(int n) { // Functions$Circle.area
			return spin(n); // Functions$Circle.area > Functions.spin
		} // Functions$Circle.area
	}

	static class Square implements Shape {
		public long area(int n) { // Functions$Square.area
			return spin(n) + 1; // Functions$Square.area > Functions.spin
		} // Functions$Square.area
	}

	static long shapes(int n) { // Functions.shapes
		long t = 0; // Functions.shapes
		for (Shape s : new Shape[] {new Circle(), new Square()}) { // Functions.shapes > Functions$Circle.<init> Functions$Square.<init>
			t += s.area(n); // Functions.shapes > Functions$Circle.area Functions$Square.area
		} // Functions.shapes
		return t; // Functions.shapes
	} // Functions.shapes

	static long applied(int n) { // Functions.applied
		LongUnaryOperator f = x -> // Functions.applied
			spin(n) + x; // lambda > Functions.spin
		return f.applyAsLong(n); // Functions.applied > lambda
	} // Functions.applied

	static long sorted(int n) { // Functions.sorted
		List<Integer> l = new ArrayList<>(); // Functions.sorted > java.util.ArrayList.<init>
		for (int i = 0; i < n; i++) { // Functions.sorted
			l.add(i * 7 % n); // Functions.sorted > java.util.ArrayList.add java.lang.Integer.valueOf
		} // Functions.sorted
		Comparator<Integer> c = (a, b) -> // Functions.sorted
			(int)(spin(30) % 1 + a - b); // lambda > Functions.spin java.lang.Integer.intValue
		Collections.sort(l, c); // Functions.sorted > java.util.Collections.sort
		return l.get(0); // Functions.sorted > java.util.ArrayList.get java.lang.Integer.intValue
	} // Functions.sorted

	static void run(double seconds) { // Functions.run
		ThreadMXBean threads = ManagementFactory.getThreadMXBean(); // Functions.run
		long end = threads.getCurrentThreadCpuTime() + (long)(seconds * 1e9); // Functions.run
		Größe g = new Größe(); // Functions.run > Functions$Größe.<init>
		while (threads.getCurrentThreadCpuTime() < end) { // Functions.run
			sink += deep(20, 3000); // Functions.run > Functions.deep
			sink += g.berechneGröße数(3000); // Functions.run > Functions$Größe.berechneGröße数
			sink += shapes(2000); // Functions.run > Functions.shapes
			sink += applied(3000); // Functions.run > Functions.applied
			sink += sorted(20); // Functions.run > Functions.sorted
		} // Functions.run
	} // Functions.run

	public static void main(String[] args) throws Exception { // Functions.main
		double seconds = Double.parseDouble(args[0]); // Functions.main > java.lang.Double.parseDouble
		Thread other = new Thread(() -> // Functions.main > java.lang.Thread.<init>
			run(seconds)); // lambda > Functions.run
		other.start(); // Functions.main > java.lang.Thread.start
		run(seconds); // Functions.main > Functions.run
		other.join(); // Functions.main > java.lang.Thread.join
	} // Functions.main
}
