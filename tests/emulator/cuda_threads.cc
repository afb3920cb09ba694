/*
 * Threads as contexts of one processor thread: each runs until it waits, then the next one does.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/emulator/cuda_threads.h"

#include "tests/emulator/cuda_run.h"

#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

emulator_index threadIdx, blockIdx, blockDim, gridDim;

constexpr unsigned SHARED_BYTES_MAX = 232448;
float4 emulator_shared[SHARED_BYTES_MAX / sizeof(float4)];

namespace {

constexpr unsigned LANES = 32;
constexpr unsigned THREADS_MAX = 1024;
constexpr size_t STACK_BYTES = 128 * 1024;
constexpr unsigned char CANARY = 0xA5;

struct barrier {
    unsigned arrived;
    unsigned passed; /* times that all have arrived */
};

/* Kept from one work-group to the next, since making contexts takes system calls, and jumping between them none. */
struct thread {
    ucontext_t beginning;
    jmp_buf place; /* where it waits, once it has begun */
    std::unique_ptr<char[]> stack;
    bool begun;
    bool done;
    unsigned shuffles;
};

thread threads[THREADS_MAX];
barrier block_barrier, warp_barriers[THREADS_MAX / LANES];
/* By turns, so that a lane that is ahead overwrites nothing that another has yet to read. */
char exchanged[2][THREADS_MAX][EMULATOR_GATHER_BYTES];
jmp_buf scheduler;
unsigned long progress;

void (*running_kernel)(void *);
void *running_parameters;

[[noreturn]] void give_up(const char *why) {
    std::fprintf(stderr, "emulator: block %u: %s\n", blockIdx.x, why);
    std::abort();
}

void leave_thread(thread *self) {
    if (_setjmp(self->place) == 0) {
        _longjmp(scheduler, 1);
    }
}

void wait_at(barrier *at, unsigned count) {
    const unsigned self = threadIdx.x;
    const unsigned turn = at->passed;
    if (++at->arrived == count) {
        at->arrived = 0;
        at->passed++;
        progress++;
        return;
    }
    while (at->passed == turn) {
        leave_thread(&threads[self]);
    }
}

/* One round for each work-group. */
void begin_thread() {
    thread *self = &threads[threadIdx.x];
    for (;;) {
        running_kernel(running_parameters);
        self->done = true;
        progress++;
        leave_thread(self);
    }
}

void make_thread(thread *made) {
    made->stack = std::make_unique<char[]>(STACK_BYTES);
    getcontext(&made->beginning);
    made->beginning.uc_stack.ss_sp = made->stack.get();
    made->beginning.uc_stack.ss_size = STACK_BYTES;
    made->beginning.uc_link = nullptr;
    makecontext(&made->beginning, begin_thread, 0);
}

void run_until_it_waits(unsigned index) {
    threadIdx.x = index;
    if (_setjmp(scheduler) != 0) {
        return;
    }
    if (threads[index].begun) {
        _longjmp(threads[index].place, 1);
    }
    threads[index].begun = true;
    setcontext(&threads[index].beginning);
}

/* Lets every thread run once that is not done. Returns how many are not. */
unsigned run_all() {
    unsigned left = 0;
    for (unsigned index = 0; index < blockDim.x; index++) {
        if (!threads[index].done) {
            run_until_it_waits(index);
            left += !threads[index].done;
        }
    }
    return left;
}

void run_block(unsigned shared_bytes) {
    unsigned char *bytes = reinterpret_cast<unsigned char *>(emulator_shared);
    std::memset(bytes, 0xFF, shared_bytes); /* NaN */
    block_barrier = {0, 0};
    for (barrier &each : warp_barriers) {
        each = {0, 0};
    }
    for (unsigned index = 0; index < blockDim.x; index++) {
        if (!threads[index].stack) {
            make_thread(&threads[index]);
        }
        threads[index].done = false;
        threads[index].shuffles = 0;
    }
    unsigned long before;
    do {
        before = progress;
    } while (run_all() > 0 && progress != before);
    for (unsigned index = 0; index < blockDim.x; index++) {
        if (!threads[index].done) {
            give_up("threads wait for each other for ever");
        }
    }
}

/* Past what the launch asked for. */
void place_canary(unsigned shared_bytes) {
    std::memset(reinterpret_cast<unsigned char *>(emulator_shared) + shared_bytes, CANARY,
                SHARED_BYTES_MAX - shared_bytes);
}

void check_canary(unsigned shared_bytes) {
    const unsigned char *bytes = reinterpret_cast<const unsigned char *>(emulator_shared);
    for (unsigned at = shared_bytes; at < SHARED_BYTES_MAX; at++) {
        if (bytes[at] != CANARY) {
            give_up("this work-group or an earlier one wrote past the end of its shared memory");
        }
    }
}

} // namespace

void __syncthreads() {
    wait_at(&block_barrier, blockDim.x);
}

void __syncwarp() {
    wait_at(&warp_barriers[threadIdx.x / LANES], LANES);
}

/* Brings the thread's own, and gives all that the block's threads brought. */
static char (*bring(const void *own, size_t bytes))[EMULATOR_GATHER_BYTES] {
    const unsigned self = threadIdx.x;
    char(*slots)[EMULATOR_GATHER_BYTES] = exchanged[threads[self].shuffles++ % 2];
    std::memcpy(slots[self], own, bytes);
    wait_at(&warp_barriers[self / LANES], LANES);
    return slots;
}

void emulator_gather(const void *own, size_t bytes, void *out_all) {
    const unsigned first = threadIdx.x / LANES * LANES;
    char(*slots)[EMULATOR_GATHER_BYTES] = bring(own, bytes);
    for (unsigned lane = 0; lane < LANES; lane++) {
        std::memcpy(static_cast<char *>(out_all) + lane * bytes, slots[first + lane], bytes);
    }
}

float emulator_shuffle(float x, unsigned lane) {
    const unsigned first = threadIdx.x / LANES * LANES;
    float brought;
    std::memcpy(&brought, bring(&x, sizeof x)[first + lane], sizeof brought);
    return brought;
}

/* ---- Kernels by name ---- */

static const emulator_kernel *kernels;

emulator_kernel::emulator_kernel(const char *kernel_name, void (*kernel)(void *))
    : name(kernel_name), run(kernel), next(kernels) {
    kernels = this;
}

void emulator_run(const char *name, unsigned blocks, unsigned count, unsigned shared_bytes, void *parameters) {
    const emulator_kernel *kernel = kernels;
    while (kernel != nullptr && std::strcmp(kernel->name, name) != 0) {
        kernel = kernel->next;
    }
    if (kernel == nullptr) {
        give_up(name);
    }
    if (count > THREADS_MAX || count % LANES != 0 || shared_bytes > SHARED_BYTES_MAX) {
        give_up("a launch that no device takes");
    }
    running_kernel = kernel->run;
    running_parameters = parameters;
    blockDim.x = count;
    gridDim.x = blocks;
    place_canary(shared_bytes);
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        run_block(shared_bytes);
    }
    check_canary(shared_bytes);
}
