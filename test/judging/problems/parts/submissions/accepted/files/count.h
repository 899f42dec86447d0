#pragma once
#include <cstddef>
#include <istream>

std::size_t different(std::istream& in);
