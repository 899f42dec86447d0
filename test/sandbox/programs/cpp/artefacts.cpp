// Programs that play a hostile compiler: they leave files for saving that no honest compiler would leave.
#include "probe.hpp"
#include <csignal>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/un.h>

static void put(const char *path, const char *text, mode_t mode = 0755) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    if (file < 0 || write(file, text, strlen(text)) < 0) say("FAILED %s %s", path, errno_name());
    fchmod(file, mode);
    close(file);
}

PROGRAM(leave_plain) { put("out", "plain"); }
PROGRAM(leave_directory) {
    mkdir("out", 0755), mkdir("out/inner", 0755);
    put("out/inner/file", "plain", 0644);
}
PROGRAM(leave_symlink) { symlink(args.empty() ? "/etc/passwd" : args[0].c_str(), "out"); }
PROGRAM(leave_symlinked_parent) { symlink(args.empty() ? "/etc" : args[0].c_str(), "dir"); }
PROGRAM(leave_hard_link) {
    put("first", "shared");
    if (link("first", "out")) say("FAILED link %s", errno_name());
}
PROGRAM(leave_fifo) { mkfifo("out", 0777); }
PROGRAM(leave_socket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strcpy(address.sun_path, "out");
    bind(socket(AF_UNIX, SOCK_STREAM, 0), (sockaddr *)&address, sizeof address);
}
PROGRAM(leave_nothing) {}
PROGRAM(leave_suid) { put("out", "plain", 06755); }
PROGRAM(leave_large) { put("out", std::string(number(args, 0, 0), 'x').c_str()); }
PROGRAM(leave_sparse) {
    put("out", "x");
    if (truncate("out", 60 << 20)) say("FAILED truncate %s", errno_name());
}
PROGRAM(leave_many) {
    mkdir("out", 0755);
    for (int i = 0; i < 200; i++) put(("out/" + std::to_string(i)).c_str(), "x");
}
PROGRAM(leave_deep) {
    std::string path = "out";
    for (int i = 0; i < 100; i++) mkdir(path.c_str(), 0755), path += "/d";
}
PROGRAM(leave_mixed) {
    mkdir("out", 0755);
    put("out/good", "plain");
    symlink("/etc/passwd", "out/soft"), mkfifo("out/fifo", 0666), symlink("..", "out/up"), symlink(".", "out/round");
    put("elsewhere", "shared");
    link("elsewhere", "out/hard");
    put("out/new\nline", "x"), put("out/-rf", "x"), put("out/ ", "x");
}
PROGRAM(leave_swapping) {
    // a child keeps exchanging the file for a link while the parent ends well
    put("out", "plain");
    if (fork() == 0)
        for (;;) {
            put("fresh", "plain"), rename("fresh", "out");
            symlink("/etc/passwd", "fresh"), rename("fresh", "out");
        }
    usleep(5000);
    _exit(0);
}
PROGRAM(leave_open) {
    // a child keeps writing to the file that is being saved
    int file = open("out", O_RDWR | O_CREAT, 0755);
    if (fork() == 0)
        for (;;)
            if (pwrite(file, "evil", 4, 0) < 0) break;
    if (write(file, "plain", 5) < 0) return;
    _exit(0);
}
