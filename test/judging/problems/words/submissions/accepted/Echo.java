import java.util.Scanner;

public class Echo {
  public static void main(String[] args) {
    int times = new Scanner(System.in).nextInt();
    for (int n = 0; n < times; n++) {
      for (String word : args) System.out.println(word);
    }
  }
}
