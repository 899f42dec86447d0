import java.util.Scanner;

public class Main {
  public static void main(String[] args) {
    Words words = new Words();
    Scanner in = new Scanner(System.in);
    while (in.hasNext()) words.add(in.next());
    System.out.println(words.different());
  }
}
