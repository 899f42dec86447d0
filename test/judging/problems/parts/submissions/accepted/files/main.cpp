#include "count.h"

#include <iostream>

int main() { std::cout << different(std::cin) << "\n"; }
