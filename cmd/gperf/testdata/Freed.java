// Methods of classes that are loaded, run and unloaded: keep_N runs that at line N % 2 + 1 of made_N.java, of the folder that
// args names. Each class takes the place of the one before.

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.function.LongUnaryOperator;

public class Freed {
    static class Loader extends ClassLoader {
        LongUnaryOperator load(String folder, String name) throws Exception {
            byte[] b = Files.readAllBytes(Paths.get(folder, name + ".class"));
            return (LongUnaryOperator) defineClass(name, b, 0, b.length).getConstructor().newInstance();
        }
    }

    static long keep_0(LongUnaryOperator made) { return made.applyAsLong(500000) + 1; }
    static long keep_1(LongUnaryOperator made) { return made.applyAsLong(500000) + 1; }
    static long keep_2(LongUnaryOperator made) { return made.applyAsLong(500000) + 1; }
    static long keep_3(LongUnaryOperator made) { return made.applyAsLong(500000) + 1; }

    static long keep(int i, LongUnaryOperator made) {
        switch (i) {
        case 0: return keep_0(made);
        case 1: return keep_1(made);
        case 2: return keep_2(made);
        default: return keep_3(made);
        }
    }

    public static void main(String[] args) throws Exception {
        OperatingSystemMXBean process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long stop = process.getProcessCpuTime() + 1000000000 * Long.parseLong(args[0]);
        for (int i = 0; process.getProcessCpuTime() < stop; i++) {
            keep(i % 4, new Loader().load(args[1], "made_" + i % 4));
            System.gc();
        }
    }
}
