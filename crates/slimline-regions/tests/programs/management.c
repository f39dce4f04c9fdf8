// A thousand teams with nothing to do: what they take is their management.
static volatile int executed;

int main(void) {
    for (int i = 0; i < 1000; i++) {
#pragma omp parallel num_threads(2)
        executed = i;
    }
}
