#include <iostream>
int main() {
  int n;
  std::cin >> n;
  std::cout << (n < {{least}} ? "too small" : n >= {{most}} ? "{{word}}" : "in bounds") << "\n";
}
