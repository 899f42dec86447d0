import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class Hundred {
  interface Shape {
    double area();
  }

  record Circle(double radius) implements Shape {
    public double area() {
      return Math.PI * radius * radius;
    }
  }

  record Square(double side) implements Shape {
    public double area() {
      return side * side;
    }
  }

  enum Color { RED, GREEN, BLUE }

  static class Graph {
    private final List<List<int[]>> edges = new ArrayList<>();

    Graph(int size) {
      for (int i = 0; i < size; i++) edges.add(new ArrayList<>());
    }

    void join(int from, int to, int cost) {
      edges.get(from).add(new int[] {to, cost});
      edges.get(to).add(new int[] {from, cost});
    }

    long[] distances(int start) {
      long[] best = new long[edges.size()];
      java.util.Arrays.fill(best, Long.MAX_VALUE);
      best[start] = 0;
      PriorityQueue<long[]> queue = new PriorityQueue<>(Comparator.comparingLong(x -> x[0]));
      queue.add(new long[] {0, start});
      while (!queue.isEmpty()) {
        long[] next = queue.poll();
        int node = (int) next[1];
        if (next[0] > best[node]) continue;
        for (int[] edge : edges.get(node)) {
          long cost = next[0] + edge[1];
          if (cost < best[edge[0]]) {
            best[edge[0]] = cost;
            queue.add(new long[] {cost, edge[0]});
          }
        }
      }
      return best;
    }
  }

  static <T, K> Map<K, Integer> countBy(List<T> items, Function<T, K> key) {
    Map<K, Integer> counts = new TreeMap<>();
    for (T item : items) counts.merge(key.apply(item), 1, Integer::sum);
    return counts;
  }

  static long fibonacci(int n, Map<Integer, Long> known) {
    if (n < 2) return n;
    Long before = known.get(n);
    if (before != null) return before;
    long value = fibonacci(n - 1, known) + fibonacci(n - 2, known);
    known.put(n, value);
    return value;
  }

  public static void main(String[] args) {
    Graph graph = new Graph(50);
    for (int i = 0; i + 1 < 50; i++) graph.join(i, i + 1, i % 7 + 1);
    long far = graph.distances(0)[49];
    List<Shape> shapes = List.of(new Circle(1), new Square(2), new Circle(3));
    double area = shapes.stream().mapToDouble(Shape::area).sum();
    ArrayDeque<Integer> window = new ArrayDeque<>();
    IntStream.range(0, 10).forEach(window::addLast);
    String joined = window.stream().map(String::valueOf).collect(Collectors.joining(","));
    Map<Integer, Integer> lengths = countBy(List.of("a", "bb", "cc", "ddd"), String::length);
    StringBuilder text = new StringBuilder();
    for (Color color : Color.values()) text.append(color.name().charAt(0));
    System.out.println(far + " " + Math.round(area) + " " + joined);
    System.out.println(lengths + " " + text + " " + fibonacci(60, new HashMap<>()));
  }
}
