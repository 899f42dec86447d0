// Programs that try to use up the bytes and the inodes of the disk.
#include "bomb.hpp"
#include <csignal>
#include <sys/stat.h>

static void fill_file(const char *what, const std::string &path, long most_mib) {
    int file = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    if (file < 0) return denied(what);
    std::vector<char> block(MIB, 'x');
    long written = 0;
    while (written < most_mib * (long)MIB) {
        ssize_t n = write(file, block.data(), block.size());
        if (n <= 0) return say("DENIED %s %s after %ld MiB", what, errno_name(), written / (long)MIB);
        written += n;
    }
    say("ESCAPED %s %ld MiB", what, written / (long)MIB);
}
PROGRAM(disk_fill) {
    signal(SIGXFSZ, SIG_IGN);
    for (const std::string &directory : args) fill_file(directory.c_str(), directory + "/filler", 100);
}
PROGRAM(disk_many_files) {
    // no file is large, so only a limit of the sum can stop this
    std::vector<char> block(256 << 10, 'x');
    until_it_fails("files of 256 KiB", 400, [&](long count) {
        int file = open(("part" + std::to_string(count)).c_str(), O_WRONLY | O_CREAT, 0600);
        bool wrote = file >= 0 && write(file, block.data(), block.size()) == (ssize_t)block.size();
        if (file >= 0) close(file);
        return wrote;
    });
}
PROGRAM(disk_unlinked) {
    // an open file without a name still takes space
    int file = open("ghost", O_RDWR | O_CREAT, 0600);
    unlink("ghost");
    signal(SIGXFSZ, SIG_IGN);
    std::vector<char> block(MIB, 'x');
    until_it_fails("unlinked MiB", 100, [&](long) { return write(file, block.data(), block.size()) == (ssize_t)block.size(); });
}
PROGRAM(disk_some) {
    int file = open("some", O_RDWR | O_CREAT, 0600);
    std::vector<char> block(MIB, 'x');
    int good = 0;
    for (int i = 0; i < 16; i++) good += write(file, block.data(), block.size()) == (ssize_t)block.size();
    works("16 MiB in the work directory", good == 16);
}
PROGRAM(file_sparse) {
    signal(SIGXFSZ, SIG_IGN);
    int file = open("sparse", O_RDWR | O_CREAT, 0600);
    must_fail("ftruncate 1 TiB", ftruncate(file, 1LL << 40));
    must_fail("fallocate 1 TiB", fallocate(file, 0, 0, 1LL << 40));
}
PROGRAM(inode_files) {
    until_it_fails("files", 20000, [](long count) {
        int file = open(("f" + std::to_string(count)).c_str(), O_WRONLY | O_CREAT, 0600);
        if (file >= 0) close(file);
        return file >= 0;
    });
}
PROGRAM(inode_deep) {
    until_it_fails("nested directories", 20000, [](long) { return mkdir("d", 0700) == 0 && chdir("d") == 0; });
}
PROGRAM(inode_symlinks) {
    until_it_fails("symlinks", 20000, [](long count) { return symlink("/etc/shadow", ("l" + std::to_string(count)).c_str()) == 0; });
}
PROGRAM(inode_links) {
    close(open("target", O_WRONLY | O_CREAT, 0600));
    until_it_fails("hard links", 20000, [](long count) { return link("target", ("h" + std::to_string(count)).c_str()) == 0; });
}
PROGRAM(inode_some) {
    int good = 0;
    for (int i = 0; i < 500; i++) {
        int file = open(("f" + std::to_string(i)).c_str(), O_WRONLY | O_CREAT, 0600);
        if (file >= 0) good++, close(file);
    }
    works("500 files", good == 500);
}
