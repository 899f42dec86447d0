#include <fstream>
#include <iostream>
#include <string>

int main(int, char** argv) {
  int lines = 0;
  std::ifstream(argv[1]) >> lines;
  for (int n = 1; n <= lines; n++) {
    std::cout << n << std::endl;
    int answer = 0;
    if (!(std::cin >> answer) || answer != 2 * n) {
      std::ofstream(std::string(argv[3]) + "/judgemessage.txt") << "line " << n << "\n";
      return 43;
    }
  }
  std::cout << 0 << std::endl;
  std::string rest;
  return std::cin >> rest ? 43 : 42;
}
