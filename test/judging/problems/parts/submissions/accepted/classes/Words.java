import java.util.HashSet;
import java.util.Set;

class Words {
  private final Set<String> words = new HashSet<>();

  void add(String word) {
    words.add(word);
  }

  int different() {
    return words.size();
  }
}
