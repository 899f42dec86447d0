#include <iostream>

int main() {
  for (int n; std::cin >> n && n != 0;) std::cout << 2 * n << std::endl;
}
