#include <algorithm>
#include <fstream>
#include <vector>

int main() {
  std::ifstream in("cards.in");
  std::vector<int> cards;
  for (int card; in >> card;) cards.push_back(card);
  std::sort(cards.begin(), cards.end());
  std::ofstream out("cards.out");
  for (int card : cards) out << card << " ";
}
