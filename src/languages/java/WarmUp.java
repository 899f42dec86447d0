/** The sources that a resident compiler compiles before its first account: what programs usually contain. */
final class WarmUp {
  static final String[] SOURCES = {
    """
    public class Main {
      public static void main(String[] args) {
        System.out.println("hello");
      }
    }
    """,
    """
    import java.io.*;
    import java.math.BigInteger;
    import java.util.*;
    import java.util.function.*;
    import java.util.stream.*;

    interface Shape { double area(); default String title() { return getClass().getSimpleName(); } }
    record Circle(double radius) implements Shape { public double area() { return Math.PI * radius * radius; } }
    enum Colour { RED(1), GREEN(2) { @Override int weight() { return 20; } }; final int n; Colour(int n) { this.n = n; } int weight() { return n; } }
    abstract class Node<T extends Comparable<T>> {
      protected T value; Node<T> left, right;
      Node(T value) { this.value = value; }
      abstract void visit(Consumer<? super T> each);
    }
    class Leaf<T extends Comparable<T>> extends Node<T> {
      Leaf(T value) { super(value); }
      void visit(Consumer<? super T> each) { if (left != null) left.visit(each); each.accept(value); if (right != null) right.visit(each); }
    }
    public class Main {
      static final int LIMIT = 1_000_000_007;
      private static long power(long base, long exponent) {
        long result = 1;
        for (base %= LIMIT; exponent > 0; exponent >>= 1, base = base * base % LIMIT)
          if ((exponent & 1) == 1) result = result * base % LIMIT;
        return result;
      }
      static int[][] grid(int n) {
        int[][] g = new int[n][n];
        outer: for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { if (i * j > 50) continue outer; g[i][j] = i ^ j; }
        return g;
      }
      static <K, V extends Comparable<V>> Optional<K> best(Map<K, V> map) {
        return map.entrySet().stream().max(Map.Entry.comparingByValue()).map(Map.Entry::getKey);
      }
      public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringTokenizer tokens = new StringTokenizer("3 4 5");
        int n = Integer.parseInt(tokens.nextToken());
        Map<String, Integer> counts = new TreeMap<>();
        for (String word : "a b a c".split(" ")) counts.merge(word, 1, Integer::sum);
        List<Integer> numbers = IntStream.rangeClosed(1, 20).boxed().filter(x -> x % 2 == 0).collect(Collectors.toList());
        Map<Boolean, List<Integer>> parts = numbers.stream().collect(Collectors.partitioningBy(x -> x > 10));
        PriorityQueue<int[]> queue = new PriorityQueue<>((a, b) -> Integer.compare(a[0], b[0]));
        Deque<Integer> stack = new ArrayDeque<>();
        queue.add(new int[] {n, 1}); stack.push(7);
        StringBuilder text = new StringBuilder();
        try (Scanner scanner = new Scanner("1 2 3")) { while (scanner.hasNextInt()) text.append(scanner.nextInt()).append(' '); }
        catch (IllegalStateException | NoSuchElementException e) { System.err.println(e.getMessage()); } finally { text.append('\\n'); }
        switch (n) { case 1: text.append("one"); break; case 3: text.append("three"); default: text.append("more"); }
        String kind = switch (Colour.RED) { case RED -> "r"; case GREEN -> { yield "g"; } };
        Object o = new Circle(2); if (o instanceof Circle c && c.radius() > 1) text.append(c.area());
        Runnable task = new Runnable() { @Override public void run() { text.append(kind); } };
        task.run();
        Function<Integer, Function<Integer, Integer>> add = x -> y -> x + y;
        BiFunction<Integer, Integer, Integer> mul = (x, y) -> x * y;
        Supplier<List<String>> maker = ArrayList::new;
        var list = maker.get(); list.add("x"); Collections.sort(list); Arrays.sort(new int[] {3, 1, 2});
        long total = 0; do { total += power(2, n) + (n > 2 ? 1 : -1); } while (total < 0);
        synchronized (text) { text.append(String.format("%d %s%n", total, BigInteger.TWO.pow(70))); }
        Node<Integer> root = new Leaf<>(5); root.left = new Leaf<>(3); root.visit(x -> text.append(x).append(","));
        System.out.println(text + best(counts).orElse("none") + add.apply(1).apply(2) + mul.apply(3, 4) + parts + grid(3).length + in.hashCode() % 1);
        assert total > 0 : "positive";
        int[] copy = numbers.stream().mapToInt(Integer::intValue).toArray(); for (int x : copy) { if (x < 0) throw new RuntimeException("negative " + x); }
      }
    }
    """,
    """
    import java.util.*;
    class Wrong { int f() { String s = 1; List<Intger> x = null; return y + 1; } void g() { undefined(); }
    """,
  };
}
