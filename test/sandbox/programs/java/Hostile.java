import java.io.*;
import java.lang.management.ManagementFactory;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;

/** The suite's Java programs: `Hostile PROGRAM [ARG...]`. ../cpp/probe.hpp explains the lines. */
public class Hostile {
    interface Attempt { Object run() throws Exception; }

    static void say(String line) {
        byte[] bytes = (line + "\n").getBytes(StandardCharsets.UTF_8);
        System.out.write(bytes, 0, bytes.length);
        System.out.flush();
    }

    static void mustFail(String what, Attempt attempt) {
        try {
            Object result = attempt.run();
            say("ESCAPED " + what + " " + result);
        } catch (Exception | LinkageError error) {
            say("DENIED " + what + " " + error.getClass().getSimpleName() + " " + error.getMessage());
        }
    }

    static void works(String what, Attempt attempt) {
        try {
            Object result = attempt.run();
            say((Boolean.FALSE.equals(result) ? "FAILED " : "OK ") + what);
        } catch (Exception | LinkageError error) {
            say("FAILED " + what + " " + error);
        }
    }

    static final List<Object> kept = new ArrayList<>();
    static volatile long sink;

    static void park() {
        while (true) {
            try { Thread.sleep(3_600_000); } catch (InterruptedException ignored) { }
        }
    }

    static void spin() { while (true) sink++; }

    static int deeper(int level) { return deeper(level + 1) + 1; }

    static String look(String path) throws IOException {
        try (InputStream in = new FileInputStream(path)) {
            return new String(in.readNBytes(60), StandardCharsets.ISO_8859_1);
        }
    }

    static void threadCount() {
        int count = 0;
        try {
            for (; count < 2000; count++) {
                Thread thread = new Thread(null, Hostile::park, "t", 65536);
                thread.setDaemon(true);
                thread.start();
            }
            say("ESCAPED thread " + count);
        } catch (OutOfMemoryError error) {
            say("DENIED thread " + error.getMessage() + " after " + count);
        }
        Runtime.getRuntime().halt(0);
    }

    static void threadFew() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Integer>> sums = new ArrayList<>();
        for (int each = 0; each < 8; each++) {
            int mine = each;
            sums.add(pool.submit(() -> mine));
        }
        int sum = 0;
        for (Future<Integer> each : sums) sum += each.get();
        int total = sum;
        pool.shutdown();
        works("8 tasks", () -> total == 28);
    }

    static void memoryBomb() {
        for (int count = 0; count < 1024; count++) kept.add(new byte[4 << 20]);
        say("ESCAPED memory 4 GiB");
    }

    static void memoryDirect() {
        for (int count = 0; count < 256; count++) {
            ByteBuffer block = ByteBuffer.allocateDirect(16 << 20);
            for (int at = 0; at < block.capacity(); at += 4096) block.put(at, (byte) 1);
            kept.add(block);
        }
        say("ESCAPED direct memory 4 GiB");
    }

    static void memoryTouch() {
        byte[] block = new byte[48 << 20];
        works("48 MiB", () -> block.length == 48 << 20);
    }

    static void memorySome(int mib) {
        byte[][] blocks = new byte[mib][];
        for (int each = 0; each < mib; each++) blocks[each] = new byte[1 << 20];
        works("memory", () -> blocks[mib - 1].length == 1 << 20);
    }

    /**
     * And says how much memory of its own the process has then, and how much it has and had in all. The JVM's compilers
     * take some MiB after the program's last step, so it waits until they rest.
     */
    static void memorySaid(int mib) throws Exception {
        memorySome(mib);
        long before = 0;
        for (int same = 0, looks = 0; same < 3 && looks < 30; looks++) {
            Thread.sleep(50);
            long now = Long.parseLong(memoryNow("RssAnon").get(0).replaceAll("\\D", ""));
            same = Math.abs(now - before) < 64 ? same + 1 : 0;
            before = now;
        }
        memoryNow("RssAnon|VmRSS|VmHWM").forEach(Hostile::say);
    }

    static List<String> memoryNow(String names) throws Exception {
        List<String> lines = Files.readAllLines(Path.of("/proc/self/status"));
        lines.removeIf(line -> !line.matches("(" + names + "):.*"));
        return lines;
    }

    static void diskFill(String[] args) {
        for (String directory : args)
            mustFail(directory + " 100 MiB", () -> {
                try (OutputStream out = new FileOutputStream(directory + "/filler")) {
                    for (int count = 0; count < 100; count++) out.write(new byte[1 << 20]);
                }
                return "written";
            });
    }

    static void fdBomb() {
        int count = 0;
        try {
            for (; count < 2000; count++) kept.add(new FileInputStream("/dev/null"));
            say("ESCAPED descriptors " + count);
        } catch (IOException error) {
            say("DENIED descriptors " + error.getMessage() + " after " + count);
        }
        Runtime.getRuntime().halt(0);
    }

    static void tcpConnect(String[] args) {
        for (String where : args) {
            int colon = where.lastIndexOf(':');
            String host = where.substring(0, colon).replace("[", "").replace("]", "");
            mustFail(where, () -> new Socket(host, Integer.parseInt(where.substring(colon + 1))));
        }
        mustFail("DatagramSocket", DatagramSocket::new);
        mustFail("ServerSocket", () -> new ServerSocket(0));
        mustFail("DNS", () -> InetAddress.getByName("example.com"));
    }

    static void unixOwn() {
        works("unix socket", () -> {
            UnixDomainSocketAddress address = UnixDomainSocketAddress.of("own.socket");
            ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
            listener.bind(address);
            return SocketChannel.open(address).isConnected();
        });
    }

    static void readPaths(String[] args) {
        for (String path : args) {
            try {
                String content = look(path);
                say((content.isEmpty() ? "DENIED " : "ESCAPED ") + path + " " + content);
            } catch (IOException error) {
                say("DENIED " + path + " " + error.getMessage());
            }
        }
    }

    static void createIn(String[] args) {
        for (String directory : args) mustFail(directory, () -> Files.createFile(Path.of(directory, "planted")));
    }

    static void createOwn(String[] args) {
        for (String directory : args)
            works(directory, () -> {
                Files.delete(Files.createFile(Path.of(directory, "own")));
                return true;
            });
    }

    static void linksOut(String[] args) {
        for (String path : args)
            mustFail(path, () -> {
                Path link = Path.of("soft");
                Files.deleteIfExists(link);
                Files.createSymbolicLink(link, Path.of(path));
                return look("soft");
            });
    }

    static void processesSeen() {
        long own = ProcessHandle.current().pid();
        long others = ProcessHandle.allProcesses().filter(each -> each.pid() != own && each.pid() > 2).count();
        say((others > 0 ? "ESCAPED " : "DENIED ") + others + " processes of others");
    }

    static void environment(String[] args) {
        Set<String> expected = Set.of(args);
        System.getenv().forEach((name, value) -> say((expected.contains(name) ? "OK" : "ESCAPED") + " environment " + name + "=" + value));
        say("OK environment listed");
    }

    static void stdoutKeptOpen() throws Exception {
        new ProcessBuilder("/bin/sleep", "3600").inheritIO().start();
        say("OK a child keeps stdout open");
        System.exit(0);
    }

    static void hooks() {
        Runtime.getRuntime().addShutdownHook(new Thread(Hostile::spin));
        say("OK main is over");
    }

    static void floodStdout() {
        byte[] block = new byte[1 << 16];
        Arrays.fill(block, (byte) 'x');
        while (true) System.out.write(block, 0, block.length);
    }

    static void printAllBytes() {
        for (int each = 0; each < 256; each++) System.out.write(each);
        System.out.flush();
    }

    static void attach() throws Exception {
        mustFail("attach to another JVM", () -> com.sun.tools.attach.VirtualMachine.attach("1"));
        mustFail("attach to itself", () -> com.sun.tools.attach.VirtualMachine.attach("" + ProcessHandle.current().pid()));
    }

    /** The input is "1 2 3". */
    static void streamsByPath() {
        works("FileInputStream of /dev/stdin", () -> {
            try (var in = new Scanner(new FileInputStream("/dev/stdin"))) { return in.nextInt() + in.nextInt() + in.nextInt() == 6; }
        });
        works("Files.newBufferedReader of /dev/stdin", () -> Files.newBufferedReader(Path.of("/dev/stdin")).readLine().equals("1 2 3"));
        works("readAllBytes of /dev/stdin", () -> new FileInputStream("/dev/stdin").readAllBytes().length == 5);
        for (String path : new String[] {"/dev/stdout", "/dev/stderr"})
            works(path, () -> {
                try (var out = new FileOutputStream(path)) { out.write(("OK " + path + "\n").getBytes()); }
                return true;
            });
    }

    static void stdinCounted() throws IOException {
        byte[] all = System.in.readAllBytes();
        long sum = 0;
        for (byte each : all) sum = (sum * 31 + (each & 255)) % 1000003;
        say("OK " + all.length + " bytes " + sum);
    }

    static void measured() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        while (system.getProcessCpuTime() < 200_000_000L)
            for (int turn = 0; turn < 1_000_000; turn++) sink++;
        say("cpu_us " + system.getProcessCpuTime() / 1000);
    }

    public static void main(String[] all) throws Exception {
        String[] args = Arrays.copyOfRange(all, 1, all.length);
        switch (all[0]) {
            case "thread_count" -> threadCount();
            case "thread_few" -> threadFew();
            case "memory_bomb" -> memoryBomb();
            case "memory_direct" -> memoryDirect();
            case "memory_touch" -> memoryTouch();
            case "memory_some" -> memorySome(Integer.parseInt(args[0]));
            case "memory_said" -> memorySaid(Integer.parseInt(args[0]));
            case "recursion" -> deeper(0);
            case "disk_fill" -> diskFill(args);
            case "disk_some" -> works("16 MiB", () -> Files.write(Path.of("some"), new byte[16 << 20]));
            case "fd_bomb" -> fdBomb();
            case "fd_some" -> works("20 descriptors", () -> {
                for (int each = 0; each < 20; each++) kept.add(new FileInputStream("/dev/null"));
                return true;
            });
            case "loop_spin" -> spin();
            case "loop_sleep" -> park();
            case "loop_threads" -> { for (int each = 0; each < 8; each++) new Thread(Hostile::spin).start(); }
            case "sleep_some" -> { Thread.sleep(100); say("OK sleep"); }
            case "hooks" -> hooks();
            case "stdout_kept_open" -> stdoutKeptOpen();
            case "tcp_connect" -> tcpConnect(args);
            case "unix_own" -> unixOwn();
            case "read_paths" -> readPaths(args);
            case "read_own" -> works(args[0], () -> !look(args[0]).isEmpty());
            case "create_in" -> createIn(args);
            case "create_own" -> createOwn(args);
            case "links_out" -> linksOut(args);
            case "processes_seen" -> processesSeen();
            case "subprocess_some" -> works("subprocess", () -> new ProcessBuilder("/bin/true").start().waitFor() == 0);
            case "environment" -> environment(args);
            case "attach" -> attach();
            case "flood_stdout" -> floodStdout();
            case "print_all_bytes" -> printAllBytes();
            case "stdin_counted" -> stdinCounted();
            case "streams_by_path" -> streamsByPath();
            case "streams_of_others" -> readPaths(new String[] {"/proc/1/fd/0"});
            case "exit_three" -> System.exit(3);
            case "uncaught" -> throw new IllegalStateException("as users know it");
            case "measured" -> measured();
            default -> { System.err.println("no program named " + all[0]); System.exit(98); }
        }
    }
}
