// hostile PROGRAM [ARG...]: the suite's C programs in one static executable. ../cpp/probe.hpp explains the lines.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static char **arguments; // behind the program's name, ended by NULL

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  char line[1024];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(line, sizeof line - 1, format, values);
  va_end(values);
  if (length > (int)sizeof line - 2) length = sizeof line - 2;
  line[length++] = '\n';
  if (write(1, line, (size_t)length) < 0) _exit(99);
}

static void must_fail(const char *what, long result) {
  if (result >= 0) say("ESCAPED %s", what);
  else say("DENIED %s %s", what, strerrorname_np(errno));
}

static void works(const char *what, bool worked) {
  if (worked) say("OK %s", what);
  else say("FAILED %s %s", what, strerrorname_np(errno));
}

static bool has_line(const char *path) {
  char bytes[64];
  int file = open(path, O_RDONLY | O_NONBLOCK);
  if (file < 0) return false;
  ssize_t count = read(file, bytes, sizeof bytes);
  close(file);
  return count > 0;
}

static void fork_count(void) {
  for (int count = 0; count < 1000; count++) {
    pid_t child = fork();
    if (child == 0) pause();
    if (child < 0) return say("DENIED fork %s after %d", strerrorname_np(errno), count);
  }
  say("ESCAPED fork 1000");
}

static void fork_few(void) {
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    works("fork", child > 0 && waitpid(child, NULL, 0) == child);
  }
}

static void fork_storm(void) {
  for (;;)
    if (fork() == 0) setsid();
}

static void *asleep(void *unused) {
  pause();
  return unused;
}

static void thread_count(void) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  for (int count = 0; count < 1000; count++) {
    pthread_t thread;
    int error = pthread_create(&thread, &small, asleep, NULL);
    if (error) return say("DENIED thread %s after %d", strerrorname_np(error), count);
  }
  say("ESCAPED thread 1000");
}

static void memory_touched(void) {
  for (;;) {
    char *more = malloc(1 << 20);
    if (more) memset(more, 1, 1 << 20);
  }
}

static void memory_some(void) {
  char *some = malloc(64 << 20);
  if (some) memset(some, 1, 64 << 20);
  works("64 MiB", some && some[(64 << 20) - 1] == 1);
}

static int deeper(int depth) {
  volatile char frame[4096];
  frame[0] = 1;
  return depth < 0 ? 0 : deeper(depth + 1) + frame[0];
}
static void stack_deep(void) { say("ESCAPED %d", deeper(0)); }

static void disk_full(void) {
  static char block[1 << 16];
  for (int i = 0; i < 100000; i++) {
    char name[32];
    snprintf(name, sizeof name, "f%d", i % 100);
    int file = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0 || write(file, block, sizeof block) < 0) return say("DENIED disk %s after %d", strerrorname_np(errno), i);
    close(file);
  }
  say("ESCAPED disk");
}

static void read_paths(void) {
  for (char **path = arguments; *path; path++) {
    if (has_line(*path)) say("ESCAPED %s", *path);
    else say("DENIED %s", *path);
  }
}

static void read_own(void) {
  works("/etc/passwd", has_line("/etc/passwd"));
  works("/proc/self/status", has_line("/proc/self/status"));
}

static void create_in(void) {
  for (char **folder = arguments; *folder; folder++) {
    char path[256];
    snprintf(path, sizeof path, "%s/planted", *folder);
    must_fail(*folder, open(path, O_WRONLY | O_CREAT, 0600));
  }
}

static void create_own(void) {
  works("/box", open("/box/own", O_WRONLY | O_CREAT, 0600) >= 0);
  works("/tmp", open("/tmp/own", O_WRONLY | O_CREAT, 0600) >= 0);
}

static void trace_and_kill(void) {
  must_fail("ptrace of init", ptrace(PTRACE_ATTACH, 1, NULL, NULL));
  must_fail("ptrace of its parent", ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
  must_fail("SIGKILL for init", kill(1, SIGKILL) == 0 && kill(1, 0) != 0 ? 0 : (errno = EPERM, -1));
}

static void kill_child(void) {
  int status;
  pid_t child = fork();
  if (child == 0) pause();
  works("kill of a child", child > 0 && kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

static void daemon_left(void) {
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      signal(SIGTERM, SIG_IGN);
      signal(SIGHUP, SIG_IGN);
      for (int i = 0; i < 3; i++) close(i);
      for (;;) pause();
    }
    _exit(0);
  }
  say("OK a daemon is left");
}

static void processes_seen(void) {
  int others = 0;
  DIR *all = opendir("/proc");
  for (struct dirent *each; all && (each = readdir(all));) {
    int pid = atoi(each->d_name);
    if (pid > 1 && pid != getpid() && pid != getppid()) others++;
  }
  say("%s %d processes of others", others ? "ESCAPED" : "DENIED", others);
}

static int connected(const char *where) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  char host[64];
  const char *colon = strrchr(where, ':');
  snprintf(host, sizeof host, "%.*s", (int)(colon - where), where);
  address.sin_port = htons((uint16_t)atoi(colon + 1));
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) return errno = EAFNOSUPPORT, -1;
  int made = socket(AF_INET, SOCK_STREAM, 0);
  return made < 0 ? -1 : connect(made, (struct sockaddr *)&address, sizeof address);
}

static void connect_out(void) {
  for (char **where = arguments; *where; where++) must_fail(*where, connected(*where));
}

static void talk_within(void) {
  int pair[2];
  char byte = 0;
  works("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && write(pair[0], "x", 1) == 1 && read(pair[1], &byte, 1) == 1 && byte == 'x');
}

static void become_root(void) {
  must_fail("setuid 0", setuid(0));
  must_fail("setgid 0", setgid(0));
  must_fail("seteuid 0", seteuid(0));
}

/* The input is "1 2 3". */
static void streams_by_path(void) {
  int a = 0, b = 0, c = 0;
  works("freopen of /dev/stdin", freopen("/dev/stdin", "r", stdin) && scanf("%d%d%d", &a, &b, &c) == 3 && a + b + c == 6);
  works("freopen of /dev/stdout", freopen("/dev/stdout", "w", stdout) && puts("OK puts") >= 0 && fflush(stdout) == 0);
  works("/proc/self/fd/2", open("/proc/self/fd/2", O_WRONLY) >= 0);
}

static void streams_of_others(void) {
  must_fail("stdin of init", open("/proc/1/fd/0", O_RDWR));
  for (int stream = 0; stream < 3; stream++) must_fail("pages of a pipe", fcntl(stream, 1031 /* F_SETPIPE_SZ */, 1 << 20));
}

static void who_am_i(void) { works("an ordinary user", getuid() != 0 && getgid() != 0); }

static const struct {
  const char *name;
  void (*run)(void);
} PROGRAMS[] = {
#define PROGRAM(name) {#name, name}
    PROGRAM(fork_count), PROGRAM(fork_few), PROGRAM(fork_storm), PROGRAM(thread_count), PROGRAM(memory_touched),
    PROGRAM(memory_some), PROGRAM(stack_deep), PROGRAM(disk_full), PROGRAM(read_paths), PROGRAM(read_own),
    PROGRAM(create_in), PROGRAM(create_own), PROGRAM(trace_and_kill), PROGRAM(kill_child), PROGRAM(daemon_left),
    PROGRAM(processes_seen), PROGRAM(connect_out), PROGRAM(talk_within), PROGRAM(become_root), PROGRAM(who_am_i),
    PROGRAM(streams_by_path), PROGRAM(streams_of_others),
};

int main(int argc, char **argv) {
  if (argc < 2) return 98;
  arguments = argv + 2;
  for (unsigned i = 0; i < sizeof PROGRAMS / sizeof PROGRAMS[0]; i++)
    if (!strcmp(PROGRAMS[i].name, argv[1])) return PROGRAMS[i].run(), 0;
  fprintf(stderr, "no program named %s\n", argv[1]);
  return 98;
}
