// Shared by all C++ programs of the suite. A program tries forbidden things and prints one line for each result, which
// decides the case:
//   DENIED <what> <ERRNO>    the attempt failed, as it must    ESCAPED <what> <detail>   the attempt succeeded
//   OK <what>                an honest action worked           FAILED <what> <ERRNO>     it did not
#pragma once
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using Args = std::vector<std::string>;
using Program = void (*)(const Args &);

struct Register {
    const char *name;
    Program program;
    const Register *next;
    static inline const Register *first = nullptr;
    Register(const char *n, Program p) : name(n), program(p), next(first) { first = this; }
};
// Two programs of one name are an error of the linker.
#define PROGRAM(name)                                  \
    extern const char only_##name;                     \
    const char only_##name = 0;                        \
    static void name(const Args &args);                \
    static const Register register_##name{#name, name}; \
    static void name([[maybe_unused]] const Args &args)

// Each line is one write without a buffer, so no line is lost when a later step kills the program, or printed twice after fork.
__attribute__((format(printf, 1, 2))) inline void say(const char *format, ...) {
    char line[1024];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line - 1, format, values);
    va_end(values);
    if (length > (int)sizeof line - 2) length = sizeof line - 2;
    line[length++] = '\n';
    if (write(1, line, length) < 0) _exit(99);
}

inline const char *errno_name() {
    const char *name = strerrorname_np(errno);
    return name ? name : "E?";
}
inline void denied(const char *what) { say("DENIED %s %s", what, errno_name()); }
inline void escaped(const char *what, const char *detail = "") { say("ESCAPED %s %s", what, detail); }

/// For a system call that must fail. Returns whether it did.
inline bool must_fail(const char *what, long result) {
    if (result >= 0) {
        escaped(what);
        return false;
    }
    denied(what);
    return true;
}
/// For an action that must work.
inline void works(const char *what, bool worked) {
    if (worked) say("OK %s", what);
    else say("FAILED %s %s", what, errno_name());
}

/// Runs `attempt` in a child, because a signal may end it: then prints DENIED with the signal's name.
template <class F> void in_child(const char *what, F attempt) {
    pid_t child = fork();
    if (child == 0) {
        attempt();
        _exit(0);
    }
    if (child < 0) return say("FAILED fork %s", errno_name());
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) say("DENIED %s SIG%s", what, sigabbrev_np(WTERMSIG(status)));
}

inline long number(const Args &args, size_t at, long otherwise) {
    return args.size() > at ? strtol(args[at].c_str(), nullptr, 10) : otherwise;
}
