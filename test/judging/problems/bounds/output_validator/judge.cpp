#include <fstream>
#include <iostream>
#include <string>

int main(int argc, char **argv) {
  if (argc != 6 || std::string(argv[4]) != "{{word}}" || std::string(argv[5]).size() != 11) return 1;
  std::ifstream input(argv[1]);
  int n;
  input >> n;
  std::string right = n < {{least}} ? "too small" : n > {{most}} ? "{{word}}" : "in bounds";
  std::string said;
  std::getline(std::cin, said);
  return said == right ? 42 : 43;
}
