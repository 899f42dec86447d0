// hostile PROGRAM [ARG...]: all C++ programs of the suite in one static file, so that the box needs no libraries.
#include "probe.hpp"

int main(int argc, char **argv) {
    if (argc < 2) return 98;
    for (const Register *each = Register::first; each; each = each->next)
        if (!strcmp(each->name, argv[1])) {
            each->program(Args(argv + 2, argv + argc));
            return 0;
        }
    fprintf(stderr, "no program named %s\n", argv[1]);
    return 98;
}
