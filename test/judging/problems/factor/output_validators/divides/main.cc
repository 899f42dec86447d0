#include <string>

#include "feedback.h"

int main(int argc, char** argv) {
  const bool proper = argc > 4 && std::string(argv[4]) == "proper";
  const long long n = number_in(argv[1]);
  long long divisor;
  if (!(std::cin >> divisor)) return wrong(argv[3], "no number");
  std::string rest;
  if (std::cin >> rest) return wrong(argv[3], "more than one number");
  if (divisor < 1 || n % divisor != 0) return wrong(argv[3], "no divisor");
  if (proper && (divisor == 1 || divisor == n)) return wrong(argv[3], "no proper divisor");
  return 42;
}
