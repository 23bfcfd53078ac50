// Runs CUDA kernels on the CPU, so that sanitizers see every access and no GPU is needed.
//
// Blocks run one after another. Each thread of a block is a fiber that runs until it reaches a barrier
// or an operation of its whole warp. `Order` is the order in which warps, and the lanes of a warp, run
// in between. A kernel whose results differ between two orders lacks a barrier.
//
// Dynamic shared memory holds NaN when a block starts, and asynchronous copies happen as late as the
// kernel permits, so a missing wait shows as NaN. In `SHUFFLED` order half of the copies happen at
// once, so a copy into memory that is still being read shows as well.

#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define DYNAMIC_SHARED(name) unsigned char* const name = host::shared.get()

// For code that touches only the memory of this header and runs often.
#define HOST_UNCHECKED __attribute__((no_sanitize("address", "undefined"), optimize("O3")))

using std::max;
using std::min;

struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
struct dim3 { unsigned x = 1, y = 1, z = 1; };
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

// ---- Numbers ----------------------------------------------------------------------------------

struct f16 { uint16_t bits; };
struct bf16 { uint16_t bits; };

HOST_UNCHECKED inline float __half2float(f16 x) {
    // The exponent of f16 is moved to its place in f32, then a product corrects its offset.
    const uint32_t magnitude = (x.bits & 0x7fffu) << 13, sign = (x.bits & 0x8000u) << 16;
    float scaled;
    memcpy(&scaled, &magnitude, 4);
    scaled *= 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &scaled, 4);
    bits |= sign | ((x.bits & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u);
    float result;
    memcpy(&result, &bits, 4);
    return result;
}
HOST_UNCHECKED inline float __bfloat162float(bf16 x) {
    const uint32_t bits = (uint32_t)x.bits << 16;
    float result;
    memcpy(&result, &bits, 4);
    return result;
}
// Both round to the nearest value, ties to even. GPUs return 0x7fff for every NaN.
inline f16 __float2half_rn(float x) {
    const _Float16 rounded = x;
    f16 result;
    memcpy(&result, &rounded, 2);
    return std::isnan(x) ? f16{0x7fff} : result;
}
inline bf16 __float2bfloat16_rn(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return std::isnan(x) ? bf16{0x7fff} : bf16{(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
// As ex2.approx.ftz: subnormal results are 0.
inline float power_of_two(float x) {
    const float y = exp2f(x);
    return y < FLT_MIN ? 0.0f : y;
}

inline float reciprocal(float x) { return 1.0f / x; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

// ---- Threads ----------------------------------------------------------------------------------

namespace host {

enum Order { ASCENDING, DESCENDING, SHUFFLED };

// An operation of a whole warp, with the operands of each lane; null for a lane that has returned.
using Operation = void (*)(void* const (&lanes)[32]);

// Sixteen bytes; `from` null: zeros.
struct Copy { void* to; const void* from; };

struct Thread {
    enum { READY, AT_BARRIER, IN_OPERATION, RETURNED } state;
    dim3 index;
    Operation operation;
    void* operands;
    std::vector<Copy> copies;   // not yet done
    std::vector<size_t> groups; // number of copies of each committed group, oldest first
    bool started = false;
    ucontext_t context;         // where it starts
    void* registers[5];         // where it goes on
};

inline Thread* threads[1024];  // made when first needed, and kept
inline Thread* current;
inline void* scheduler[5];
inline std::function<void()> kernel;
inline Order order;
inline uint64_t random_state;
inline std::unique_ptr<unsigned char[]> shared;
inline size_t shared_bytes;

[[noreturn]] inline void fail(const char* message) {
    fprintf(stderr, "block (%u, %u, %u), thread %u: %s\n", blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, message);
    abort();
}

HOST_UNCHECKED inline unsigned random_bits() {
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return (unsigned)(random_state >> 20);
}

// swapcontext would make a system call for each switch, and the address sanitizer would forget the
// variables on the stack. `noipa` keeps the compiler from assuming which variables a switch changes.
#define HOST_SWITCH __attribute__((noipa, noinline)) HOST_UNCHECKED inline
HOST_SWITCH void jump(void** to) { __builtin_longjmp(to, 1); }
HOST_SWITCH void pause() {
    if (!__builtin_setjmp(current->registers)) jump(scheduler);
}
HOST_SWITCH void resume(Thread& thread) {
    current = &thread;
    threadIdx = thread.index;
    if (__builtin_setjmp(scheduler)) return;
    if (thread.started) jump(thread.registers);
    thread.started = true;
    setcontext(&thread.context);
}
#undef HOST_SWITCH

// A fiber runs one thread of each launch.
inline void fiber() {
    for (;;) {
        kernel();
        current->state = Thread::RETURNED;
        pause();
    }
}

inline Thread* new_thread() {
    const size_t page = 1 << 16, bytes = 4 * page;  // the last page of the stack is a guard
    void* stack = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, page, PROT_NONE)) fail("cannot allocate a stack");
    auto* thread = new Thread;
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = stack;
    thread->context.uc_stack.ss_size = bytes;
    makecontext(&thread->context, fiber, 0);
    return thread;
}

// Numbers below `count` in the order of this launch. Shuffled ones are different each time.
HOST_UNCHECKED inline void arrange(unsigned count, unsigned* numbers) {
    for (unsigned i = 0; i < count; i++) {
        const unsigned other = order == SHUFFLED ? random_bits() % (i + 1) : i;
        numbers[i] = numbers[other];
        numbers[other] = order == DESCENDING ? count - 1 - i : i;
    }
}

// Runs the `count` threads from `first` until each is at a block barrier or has returned.
HOST_UNCHECKED inline void run_warp(unsigned first, unsigned count) {
    for (;;) {
        unsigned lanes[32];
        arrange(count, lanes);
        for (unsigned i = 0; i < count; i++) {
            Thread& thread = *threads[first + lanes[i]];
            if (thread.state == Thread::READY) resume(thread);
        }
        Operation operation = nullptr;
        void* operands[32] = {};
        bool barrier = false;
        for (unsigned lane = 0; lane < count; lane++) {
            const Thread& thread = *threads[first + lane];
            if (thread.state == Thread::AT_BARRIER) barrier = true;
            if (thread.state != Thread::IN_OPERATION) continue;
            if (operation && operation != thread.operation) fail("lanes of its warp are in different operations");
            operation = thread.operation;
            operands[lane] = thread.operands;
        }
        if (!operation) return;
        if (barrier) fail("some lanes of its warp are in a warp operation, others at a block barrier");
        operation(operands);
        for (unsigned lane = 0; lane < count; lane++)
            if (operands[lane]) threads[first + lane]->state = Thread::READY;
    }
}

inline void run_block(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        threads[i]->state = Thread::READY;
        threads[i]->copies.clear(), threads[i]->groups.clear();
    }
    memset(shared.get(), 0xff, shared_bytes);
    for (bool live = true; live;) {
        unsigned warps[32];
        arrange((count + 31) / 32, warps);
        for (unsigned i = 0; i < (count + 31) / 32; i++) run_warp(32 * warps[i], min(32u, count - 32 * warps[i]));
        live = false;
        for (unsigned i = 0; i < count; i++)
            if (threads[i]->state == Thread::AT_BARRIER) threads[i]->state = Thread::READY, live = true;
    }
}

template <class Args>
void launch(void (*entry)(Args), dim3 grid, dim3 block, size_t bytes, const Args& args, Order run_order) {
    const unsigned count = block.x * block.y * block.z;
    if (count == 0 || count > 1024) fail("a block has 1 to 1024 threads");
    kernel = [&] { entry(args); };
    gridDim = grid, blockDim = block, order = run_order, random_state = 88172645463325252u;
    shared_bytes = bytes, shared.reset(new unsigned char[bytes]);
    for (unsigned i = 0; i < count; i++) {
        if (!threads[i]) threads[i] = new_thread();
        threads[i]->index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
    }
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = {x, y, z};
                run_block(count);
            }
}

// Waits for the other lanes, whose operands `operation` receives too.
inline void join(void* operands, Operation operation) {
    current->operands = operands, current->operation = operation, current->state = Thread::IN_OPERATION;
    pause();
}

inline void require_all(void* const (&lanes)[32]) {
    for (const void* lane : lanes)
        if (!lane) fail("an operation of the whole warp, of which a lane has returned or does not exist");
}

inline void require_row(const void* row) {
    const auto* place = static_cast<const unsigned char*>(row);
    if ((uintptr_t)row % 16) fail("an address in shared memory is not a multiple of 16");
    if (place < shared.get() || place + 16 > shared.get() + shared_bytes) fail("an address outside shared memory");
}

inline void execute(const Copy& copy) {
    if (copy.from) memcpy(copy.to, copy.from, 16);
    else memset(copy.to, 0, 16);
}

}  // namespace host

inline void __syncthreads() {
    host::current->state = host::Thread::AT_BARRIER;
    host::pause();
}
inline void __syncwarp() {
    char none;
    host::join(&none, [](void* const (&)[32]) {});
}

inline float __shfl_xor_sync(unsigned mask, float value, int step) {
    struct Lane { float value; int step; float other; } own{value, step, 0.0f};
    if (mask != 0xffffffffu) host::fail("only whole warps are supported");
    host::join(&own, [](void* const (&lanes)[32]) {
        host::require_all(lanes);
        for (int i = 0; i < 32; i++) {
            Lane& lane = *static_cast<Lane*>(lanes[i]);
            const Lane& other = *static_cast<Lane*>(lanes[i ^ lane.step]);
            if (lane.step != other.step) host::fail("lanes exchange values at different distances");
            lane.other = other.value;
        }
    });
    return own.other;
}

inline bool __any_sync(unsigned mask, bool value) {
    struct Lane { bool value, any; } own{value, false};
    if (mask != 0xffffffffu) host::fail("only whole warps are supported");
    host::join(&own, [](void* const (&lanes)[32]) {
        host::require_all(lanes);
        bool any = false;
        for (void* lane : lanes) any |= static_cast<Lane*>(lane)->value;
        for (void* lane : lanes) static_cast<Lane*>(lane)->any = any;
    });
    return own.any;
}

// ---- Asynchronous copies ----------------------------------------------------------------------

inline void copy16(void* to, const void* from, bool inside) {
    host::require_row(to);
    if ((uintptr_t)from % 16) host::fail("an address to copy from is not a multiple of 16");
    const host::Copy copy{to, inside ? from : nullptr};
    if (host::order == host::SHUFFLED && host::random_bits() % 2) host::execute(copy);
    else host::current->copies.push_back(copy);
}
inline void commit() {
    auto& groups = host::current->groups;
    size_t before = 0;
    for (const size_t group : groups) before += group;
    groups.push_back(host::current->copies.size() - before);
}
// All groups but the LATER newest are done.
template <int LATER> void await() {
    auto& copies = host::current->copies;
    auto& groups = host::current->groups;
    while (groups.size() > LATER) {
        for (size_t i = 0; i < groups[0]; i++) host::execute(copies[i]);
        copies.erase(copies.begin(), copies.begin() + groups[0]);
        groups.erase(groups.begin());
    }
}

// ---- Matrix units -----------------------------------------------------------------------------

namespace host {

struct MatrixRow { const void* row; unsigned (&to)[4]; };

// ldmatrix.x4: lanes 8i to 8i + 7 name the rows of matrix i, of which lane j gets the values 2(j % 4)
// and 2(j % 4) + 1 of row j / 4; of column j / 4 if transposed.
template <bool TRANSPOSED> void load_matrices(void* const (&lanes)[32]) {
    require_all(lanes);
    uint16_t values[32][8];
    for (int i = 0; i < 32; i++) {
        const void* row = static_cast<MatrixRow*>(lanes[i])->row;
        require_row(row);
        memcpy(values[i], row, 16);
    }
    for (int i = 0; i < 32; i++)
        for (int matrix = 0; matrix < 4; matrix++) {
            const int a = i / 4, b = 2 * (i % 4);
            const unsigned low = TRANSPOSED ? values[8 * matrix + b][a] : values[8 * matrix + a][b];
            const unsigned high = TRANSPOSED ? values[8 * matrix + b + 1][a] : values[8 * matrix + a][b + 1];
            static_cast<MatrixRow*>(lanes[i])->to[matrix] = low | high << 16;
        }
}

template <class T> struct Product { float (&c)[4]; const unsigned (&a)[4]; unsigned b[2]; };

HOST_UNCHECKED inline float value(f16 x) { return __half2float(x); }
HOST_UNCHECKED inline float value(bf16 x) { return __bfloat162float(x); }

// mma.m16n8k16.row.col: lane j has, in the lower half first, columns 2(j % 4) + {0, 1} of a in rows
// j / 4, j / 4 + 8, and columns + 8 of both; rows 2(j % 4) + {0, 1} of b, and + 8, in column j / 4;
// columns 2(j % 4) + {0, 1} of c in rows j / 4 and j / 4 + 8.
template <class T> HOST_UNCHECKED void multiply_matrices(void* const (&lanes)[32]) {
    require_all(lanes);
    float a[16][16], b[16][8], c[16][8];
    for (int i = 0; i < 32; i++) {
        const auto& lane = *static_cast<Product<T>*>(lanes[i]);
        const int row = i / 4, column = 2 * (i % 4);
        for (int e = 0; e < 8; e++)
            a[row + e / 2 % 2 * 8][column + e / 4 * 8 + e % 2] = value(T{(uint16_t)(lane.a[e / 2] >> e % 2 * 16)});
        for (int e = 0; e < 4; e++) {
            b[column + e / 2 * 8 + e % 2][row] = value(T{(uint16_t)(lane.b[e / 2] >> e % 2 * 16)});
            c[row + e / 2 * 8][column + e % 2] = lane.c[e];
        }
    }
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++) c[i][j] += a[i][k] * b[k][j];
    for (int i = 0; i < 32; i++)
        for (int e = 0; e < 4; e++)
            static_cast<Product<T>*>(lanes[i])->c[e] = c[i / 4 + e / 2 * 8][2 * (i % 4) + e % 2];
}

}  // namespace host

inline void matrices(unsigned (&to)[4], const void* row) {
    host::MatrixRow own{row, to};
    host::join(&own, host::load_matrices<false>);
}
inline void matrices_transposed(unsigned (&to)[4], const void* row) {
    host::MatrixRow own{row, to};
    host::join(&own, host::load_matrices<true>);
}
template <class T> void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    host::Product<T> own{c, a, {b0, b1}};
    host::join(&own, host::multiply_matrices<T>);
}
