// Programs that try to communicate.
#include "probe.hpp"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

PROGRAM(socket_families) {
    static const struct { const char *name; int type; } types[] = {{"stream", SOCK_STREAM}, {"datagram", SOCK_DGRAM}, {"raw", SOCK_RAW}, {"seqpacket", SOCK_SEQPACKET}};
    int denials = 0;
    for (int family = 0; family < 64; family++) {
        if (family == AF_UNIX) continue;
        for (auto &type : types) {
            int made = socket(family, type.type, 0);
            if (made >= 0) say("ESCAPED socket family %d %s", family, type.name);
            else denials++;
        }
    }
    say("DENIED %d kinds of socket", denials);
}
PROGRAM(socket_family) {
    int family = (int)number(args, 0, AF_INET), type = (int)number(args, 1, SOCK_STREAM), protocol = (int)number(args, 2, 0);
    must_fail("socket", socket(family, type, protocol));
}
PROGRAM(socket_pair_inet) {
    int pair[2];
    must_fail("socketpair AF_INET", socketpair(AF_INET, SOCK_STREAM, 0, pair));
    must_fail("socketpair AF_TIPC", socketpair(30, SOCK_STREAM, 0, pair));
}
static bool unix_name(sockaddr_un &address, socklen_t &size, const std::string &name) {
    address = {};
    address.sun_family = AF_UNIX;
    bool abstract = name[0] == '@';
    memcpy(address.sun_path + abstract, name.c_str() + abstract, name.size() - abstract);
    size = (socklen_t)(offsetof(sockaddr_un, sun_path) + name.size() + !abstract);
    return name.size() < sizeof address.sun_path;
}
PROGRAM(unix_listen) {
    // then waits for connections until the run ends
    sockaddr_un address;
    socklen_t size;
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    unix_name(address, size, args.at(0));
    works("listen", bind(listener, (sockaddr *)&address, size) == 0 && listen(listener, 5) == 0);
    while (args.size() > 1) {
        int caller = accept(listener, nullptr, nullptr);
        if (caller >= 0) escaped("unix socket", "accepted a connection"), close(caller);
    }
}
PROGRAM(unix_connect) {
    for (const std::string &name : args) {
        sockaddr_un address;
        socklen_t size;
        unix_name(address, size, name);
        int caller = socket(AF_UNIX, SOCK_STREAM, 0);
        must_fail(name.c_str(), connect(caller, (sockaddr *)&address, size));
        close(caller);
    }
}
PROGRAM(unix_own) {
    for (std::string name : {"@own", "own.socket"}) {
        sockaddr_un address;
        socklen_t size;
        unix_name(address, size, name);
        int listener = socket(AF_UNIX, SOCK_STREAM, 0), caller = socket(AF_UNIX, SOCK_STREAM, 0);
        bool up = bind(listener, (sockaddr *)&address, size) == 0 && listen(listener, 5) == 0;
        works(name.c_str(), up && connect(caller, (sockaddr *)&address, size) == 0);
    }
}
PROGRAM(unix_pair) {
    int pair[2];
    char back[4] = {};
    works("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && write(pair[0], "abc", 3) == 3 && read(pair[1], back, 3) == 3);
}
PROGRAM(tcp_connect) {
    for (const std::string &where : args) {
        bool six = where[0] == '[';
        size_t colon = where.rfind(':');
        std::string host = six ? where.substr(1, colon - 2) : where.substr(0, colon);
        int caller = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
        if (caller < 0) {
            denied(where.c_str());
            continue;
        }
        sockaddr_in four{};
        sockaddr_in6 long_form{};
        four.sin_family = AF_INET, long_form.sin6_family = AF_INET6;
        four.sin_port = long_form.sin6_port = htons((uint16_t)atoi(where.c_str() + colon + 1));
        inet_pton(six ? AF_INET6 : AF_INET, host.c_str(), six ? (void *)&long_form.sin6_addr : (void *)&four.sin_addr);
        must_fail(where.c_str(), six ? connect(caller, (sockaddr *)&long_form, sizeof long_form) : connect(caller, (sockaddr *)&four, sizeof four));
    }
}
PROGRAM(dns_ask) {
    int caller = socket(AF_INET, SOCK_DGRAM, 0);
    if (caller < 0) return denied("socket");
    sockaddr_in server{};
    server.sin_family = AF_INET, server.sin_port = htons(53);
    inet_pton(AF_INET, "127.0.0.53", &server.sin_addr);
    must_fail("question sent", sendto(caller, "x", 1, 0, (sockaddr *)&server, sizeof server));
}
PROGRAM(interfaces) {
    int any = socket(AF_UNIX, SOCK_DGRAM, 0);
    char names[4096];
    struct { int size; char *at; } list{sizeof names, names};
    syscall(SYS_ioctl, any, 0x8912 /* SIOCGIFCONF */, &list); // works with any socket, including AF_UNIX
    say("%s SIOCGIFCONF %d bytes of addresses", list.size > 0 && list.size < (int)sizeof names ? "ESCAPED" : "DENIED", list.size);
    char request[40] = "lo";
    short up = 1;
    memcpy(request + 16, &up, sizeof up);
    must_fail("ifconfig lo up", syscall(SYS_ioctl, any, 0x8914 /* SIOCSIFFLAGS */, request));
}
PROGRAM(hostname_set) {
    must_fail("sethostname", sethostname("evil", 4));
    must_fail("setdomainname", setdomainname("evil", 4));
}
PROGRAM(hostname_get) {
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    bool real = !args.empty() && args[0] == name;
    say("%s hostname %s", real ? "ESCAPED" : "OK", name);
}
