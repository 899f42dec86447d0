// Reading files and directories.
#pragma once
#include "probe.hpp"
#include <dirent.h>

/// Reads at most `most` bytes, because a file may be endless, and without blocking.
inline bool slurp(const std::string &path, std::string &into, size_t most = 1 << 16) {
    int file = open(path.c_str(), O_RDONLY | O_NONBLOCK);
    if (file < 0) return false;
    char block[4096];
    ssize_t n = 0;
    while (into.size() < most && (n = read(file, block, sizeof block)) > 0) into.append(block, (size_t)n);
    int why = errno;
    close(file);
    errno = why;
    return n >= 0;
}
template <class F> void each_entry(const std::string &directory, F see) {
    DIR *list = opendir(directory.c_str());
    if (!list) return;
    while (dirent *entry = readdir(list))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) see(std::string(entry->d_name));
    closedir(list);
}
