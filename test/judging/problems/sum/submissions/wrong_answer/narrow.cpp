#include <cstdint>
#include <iostream>

int main() {
  std::uint32_t a, b;
  long long x, y;
  std::cin >> x >> y;
  a = x, b = y;
  std::cout << static_cast<std::int32_t>(a + b) << "\n";
}
