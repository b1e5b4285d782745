#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
#ifdef __GLIBC__
    for (int at = 1; at < argc; at++) {
        srand((unsigned)strtoul(argv[at], NULL, 10));
        for (int count = 0; count < 400; count++) printf("%d\n", rand());
    }
#else
    puts("another library");
#endif
    return 0;
}
