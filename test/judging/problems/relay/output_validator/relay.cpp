#include <fstream>
#include <iostream>
#include <string>

/** In the first pass it sends "hide N" and gets another number M. In the second it sends "find M" and gets N. */
int main(int, char** argv) {
  const std::string folder = std::string(argv[3]) + "/";
  long long number = 0, hidden = 0, answer = 0;
  std::ifstream(argv[2]) >> number;
  std::ifstream state(folder + "hidden");
  const bool finds = static_cast<bool>(state >> hidden);
  std::cout << (finds ? "find " : "hide ") << (finds ? hidden : number) << std::endl;
  if (!(std::cin >> answer)) return 43;
  if (finds) return answer == number ? 42 : 43;
  if (answer == number) return 43;
  std::ofstream(folder + "hidden") << answer << "\n";
  std::ofstream(folder + "nextpass.in") << "again\n";
  return 42;
}
