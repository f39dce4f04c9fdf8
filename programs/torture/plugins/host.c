// A program without C++ that loads its arguments for itself alone.

#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        void *plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (!plugin) {
            puts(dlerror());
            return 3;
        }
        long (*run)(void) = (long (*)(void))dlsym(plugin, "run");
        for (int round = 0; round < 200; round++)
            printf("%ld ", run());
        puts("");
        dlclose(plugin);
    }
    return 0;
}
