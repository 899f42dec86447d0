// Programs that read other users' files, and that write where other runs might read.
#include "probe.hpp"
#include "look.hpp"
#include <csignal>
#include <sys/fanotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

PROGRAM(read_paths) {
    for (const std::string &path : args) {
        std::string content;
        if (!slurp(path, content)) denied(path.c_str());
        else if (content.empty()) say("DENIED %s empty", path.c_str());
        else say("ESCAPED %s %.60s", path.c_str(), content.c_str());
    }
}
PROGRAM(read_own) {
    for (const std::string &path : args) {
        std::string content;
        works(path.c_str(), slurp(path, content) && !content.empty());
    }
}
PROGRAM(write_paths) {
    for (const std::string &path : args) {
        int file = open(path.c_str(), O_WRONLY);
        if (file < 0) {
            denied(path.c_str());
            continue;
        }
        must_fail(path.c_str(), write(file, "1", 1));
        close(file);
    }
}
PROGRAM(create_in) {
    for (const std::string &directory : args) {
        int file = open((directory + "/planted").c_str(), O_WRONLY | O_CREAT, 0666);
        must_fail(directory.c_str(), file);
    }
}
PROGRAM(create_own) {
    for (const std::string &directory : args) {
        int file = open((directory + "/own").c_str(), O_WRONLY | O_CREAT, 0666);
        works(directory.c_str(), file >= 0 && write(file, "x", 1) == 1 && unlink((directory + "/own").c_str()) == 0);
    }
}
PROGRAM(up_and_out) {
    // more steps up than any directory is deep, also from the other roots that /proc shows
    std::string up = "..";
    for (int i = 0; i < 64; i++) up += "/..";
    for (const std::string &path : args)
        for (const std::string &root : {up, std::string("/proc/self/root/.."), std::string("/proc/1/root"), std::string("/proc/self/cwd/../.."), std::string("/proc/1/cwd")}) {
            std::string content;
            if (slurp(root + path, content)) escaped((root + path).c_str());
        }
    int here = open(".", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 64; i++) {
        int above = openat(here, "..", O_RDONLY | O_DIRECTORY);
        if (fchdir(above) == 0) close(here), here = above;
    }
    struct stat top{}, root{};
    fstat(here, &top), stat("/", &root);
    if (top.st_ino != root.st_ino || top.st_dev != root.st_dev) escaped("..", "is above /");
    say("DENIED nothing above /");
}
PROGRAM(links_out) {
    for (const std::string &path : args) {
        std::string content;
        symlink(path.c_str(), "soft");
        if (slurp("soft", content)) escaped(path.c_str(), "by symbolic link");
        else denied(path.c_str());
        unlink("soft");
    }
    must_fail("hard link", linkat(AT_FDCWD, "/proc/self/exe", AT_FDCWD, "hard", AT_SYMLINK_FOLLOW));
}
PROGRAM(chroot_out) {
    mkdir("jail", 0700);
    int outside = open("/", O_RDONLY | O_DIRECTORY);
    if (must_fail("chroot", chroot("jail"))) return;
    fchdir(outside);
    for (int i = 0; i < 64; i++) chdir("..");
    chroot(".");
}
PROGRAM(processes_seen) {
    int others = 0;
    each_entry("/proc", [&](const std::string &name) {
        int pid = atoi(name.c_str());
        if (pid <= 0 || pid == getpid()) return;
        // its own namespace contains the box's init and no other process
        if (pid != getppid() && pid != 1) say("ESCAPED process %d is seen", pid), others++;
    });
    say("DENIED %d processes of others", others);
}
PROGRAM(secrets_of_processes) {
    each_entry("/proc", [&](const std::string &name) {
        if (atoi(name.c_str()) <= 0 || atoi(name.c_str()) == getpid()) return;
        for (const char *what : {"environ", "mem", "maps", "auxv", "syscall", "stack", "fd/0", "fd/3", "cwd/.", "root/etc/shadow", "exe"}) {
            std::string content, path = "/proc/" + name + "/" + what;
            if (!slurp(path, content)) denied(path.c_str());
            else if (content.empty()) say("DENIED %s empty", path.c_str());
            else say("ESCAPED %s %.40s", path.c_str(), content.c_str());
        }
    });
    say("DENIED end of list");
}
PROGRAM(descriptors) {
    int list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY), extra = 0;
    for (int each = 0; each < 4096; each++)
        if (each != list && fcntl(each, F_GETFD) >= 0) {
            char link[256] = {};
            readlink(("/proc/self/fd/" + std::to_string(each)).c_str(), link, sizeof link - 1);
            if (each > 2) extra++;
            say("%s descriptor %d %s", each > 2 ? "ESCAPED" : "OK", each, link);
        }
    say("DENIED %d descriptors beyond 0, 1 and 2", extra);
}
PROGRAM(devices_seen) {
    each_entry("/dev", [&](const std::string &name) {
        static const char *usual[] = {"null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "shm", "mqueue"};
        bool known = false;
        for (const char *each : usual) known |= name == each;
        if (!known) escaped("/dev has", name.c_str());
    });
    say("DENIED other devices");
}
PROGRAM(devices_own) {
    char bytes[16];
    int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDONLY), chance = open("/dev/urandom", O_RDONLY), full = open("/dev/full", O_WRONLY);
    works("/dev/null", write(null, "x", 1) == 1 && read(null, bytes, 1) == 0);
    works("/dev/zero", read(zero, bytes, 16) == 16 && bytes[7] == 0);
    works("/dev/urandom", read(chance, bytes, 16) == 16);
    works("/dev/full", write(full, "x", 1) < 0 && errno == ENOSPC);
}
PROGRAM(devices_make) {
    must_fail("mknod mem", mknod("mem", S_IFCHR | 0666, makedev(1, 1)));
    must_fail("mknod disk", mknod("disk", S_IFBLK | 0666, makedev(254, 0)));
    must_fail("mknod null", mknod("/dev/null2", S_IFCHR | 0666, makedev(1, 3)));
    must_fail("mknod in /tmp", mknod("/tmp/mem", S_IFCHR | 0666, makedev(1, 1)));
}
PROGRAM(fifo_make) { works("mkfifo", mkfifo("fifo", 0600) == 0); }

static bool copy_self(const std::string &to) {
    std::string self;
    if (!slurp("/proc/self/exe", self, 64 << 20)) return false;
    int file = open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0755);
    return file >= 0 && write(file, self.data(), self.size()) == (ssize_t)self.size() && fchmod(file, 0755) == 0 && close(file) == 0;
}
PROGRAM(who_am_i) {
    uid_t real, effective, saved;
    getresuid(&real, &effective, &saved);
    bool changed = !args.empty() && (uid_t)number(args, 0, 0) != effective;
    say("%s uid %u %u %u", changed || real != effective || real != saved ? "ESCAPED" : "DENIED", real, effective, saved);
}
PROGRAM(suid_file) {
    if (!copy_self("suid")) return say("FAILED copy %s", errno_name());
    must_fail("chown to root", chown("suid", 0, 0));
    if (getuid() == 0) escaped("uid", "is 0");
    say("OK chmod 6755 %d", chmod("suid", 06755));
    std::string uid = std::to_string(getuid());
    execl("suid", "suid", "who_am_i", uid.c_str(), nullptr);
    denied("exec of a setuid file");
}
PROGRAM(suid_programs) {
    // the setuid programs of the system: a box contains none
    for (const char *path : {"/usr/bin/su", "/usr/bin/sudo", "/usr/bin/passwd", "/usr/bin/mount", "/usr/bin/newgrp", "/usr/bin/chsh", "/usr/bin/pkexec"}) {
        struct stat file{};
        must_fail(path, stat(path, &file));
    }
}
PROGRAM(commands_some) {
    works("system()", system("echo OK echo && ls -a > listed && cat listed > copied && test -s copied") == 0);
    FILE *shell = popen("echo $((6 * 7))", "r");
    int number = 0;
    works("popen()", shell && fscanf(shell, "%d", &number) == 1 && number == 42 && pclose(shell) == 0);
}
PROGRAM(capability_file) {
    if (!copy_self("capable")) return say("FAILED copy %s", errno_name());
    const uint32_t all[5] = {0x02000001, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff};
    must_fail("security.capability", setxattr("capable", "security.capability", all, sizeof all, 0));
    must_fail("trusted.x", setxattr("capable", "trusted.x", "1", 1, 0));
}
PROGRAM(exec_from) {
    for (const std::string &directory : args) {
        std::string path = directory + "/program";
        if (!copy_self(path)) {
            denied(directory.c_str());
            continue;
        }
        in_child(directory.c_str(), [&] {
            execl(path.c_str(), "program", "escaped_exec", nullptr);
            denied(directory.c_str());
        });
        unlink(path.c_str());
    }
}
PROGRAM(escaped_exec) { escaped("exec", "from a place for data"); }
PROGRAM(exec_self) {
    execl("/proc/self/exe", "again", "fifo_make", nullptr);
    say("FAILED exec %s", errno_name());
}
PROGRAM(exe_overwrite) {
    must_fail("own program opened for writing", open("/proc/self/exe", O_WRONLY));
    char path[512] = {};
    readlink("/proc/self/exe", path, sizeof path - 1);
    must_fail("own program removed", unlink(path));
    must_fail("own program's mode", chmod(path, 0777));
    must_fail("own program's time", utimensat(AT_FDCWD, path, nullptr, 0));
}
static std::string field(const std::string &line, int which) {
    size_t at = 0;
    while (which-- > 0) at = line.find(' ', at) + 1;
    return line.substr(at, line.find(' ', at) - at);
}
PROGRAM(mounts_shown) {
    std::string table;
    slurp("/proc/self/mountinfo", table, 1 << 20);
    for (const std::string &word : args)
        if (table.find(word) != std::string::npos) escaped("mountinfo shows", word.c_str());
    // Every mount must be nosuid, and nodev except in /dev. A mount that another one covers cannot be reached.
    for (size_t at = 0, end; (end = table.find('\n', at)) != std::string::npos; at = end + 1) {
        std::string line = table.substr(at, end - at), flags = line.substr(0, line.find(" - "));
        std::string place = field(flags, 4);
        bool covered = false, device = place.rfind("/dev/", 0) == 0 && place != "/dev/shm";
        for (size_t later = end + 1, stop; (stop = table.find('\n', later)) != std::string::npos; later = stop + 1)
            covered |= field(table.substr(later, stop - later), 4) == place;
        if (covered || device) continue;
        if (flags.find("nosuid") == std::string::npos) escaped("mount without nosuid", flags.c_str());
        if (place != "/dev" && flags.find("nodev") == std::string::npos) escaped("mount without nodev", flags.c_str());
    }
    say("DENIED %zu bytes of mounts", table.size());
}
PROGRAM(cgroup_write) {
    std::string own;
    slurp("/proc/self/cgroup", own);
    for (size_t at = 0, end; (end = own.find('\n', at)) != std::string::npos; at = end + 1) {
        std::string line = own.substr(at, end - at);
        if (line.size() > 2 && line.compare(line.size() - 2, 2, ":/") != 0) say("OK shown group %s", line.c_str());
    }
    for (const char *path : {"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/tasks", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                             "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/pids/pids.max"}) {
        int file = open(path, O_WRONLY);
        if (must_fail(path, file)) continue;
        must_fail(path, write(file, "0", 1));
    }
    for (const char *kind : {"cgroup", "cgroup2"}) must_fail(kind, mount("none", "/tmp", kind, 0, nullptr));
}
PROGRAM(handle_open) {
    struct { file_handle header; unsigned char bytes[128]; } handle{};
    handle.header.handle_bytes = 128;
    int mount_id;
    name_to_handle_at(AT_FDCWD, "/", &handle.header, &mount_id, 0);
    must_fail("open_by_handle_at", open_by_handle_at(open("/", O_RDONLY), &handle.header, O_RDONLY));
}
PROGRAM(fanotify) { must_fail("fanotify_init", fanotify_init(FAN_CLASS_CONTENT, O_RDONLY)); }
PROGRAM(file_lock_host) {
    // A lease on a shared file would stop other runs from opening it.
    for (const char *path : {"/proc/self/exe", "/usr/lib/x86_64-linux-gnu/libc.so.6"}) {
        int file = open(path, O_RDONLY);
        must_fail(path, file < 0 ? -1 : fcntl(file, F_SETLEASE, F_WRLCK));
    }
}
