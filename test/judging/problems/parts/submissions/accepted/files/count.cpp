#include "count.h"

#include <set>
#include <string>

std::size_t different(std::istream& in) {
  std::set<std::string> words;
  for (std::string word; in >> word;) words.insert(word);
  return words.size();
}
