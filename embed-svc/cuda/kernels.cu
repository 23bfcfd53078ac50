// The kernels of embed-svc on NVIDIA GPUs (src/backend/candle/cuda launches them). Linear layers
// go through cublasLt.
//
// Each row of a result, and each text in `attend`, is computed in one fixed order of operations that
// depends on that row or text alone. So a text's vector has the same bits in any batch.
//
// Values are f32, f16 or bf16 in memory and f32 in registers. This file also compiles as C++: host.h
// runs it on the CPU for test.cpp.

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
typedef __half f16;
typedef __nv_bfloat16 bf16;
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
#include "host.h"
#endif

// ---- Numbers ----------------------------------------------------------------------------------

__device__ __forceinline__ float wide(float x) { return x; }
__device__ __forceinline__ float wide(f16 x) { return __half2float(x); }
__device__ __forceinline__ float wide(bf16 x) { return __bfloat162float(x); }

template <class T> __device__ __forceinline__ T narrow(float x);
template <> __device__ __forceinline__ float narrow<float>(float x) { return x; }
template <> __device__ __forceinline__ f16 narrow<f16>(float x) { return __float2half_rn(x); }
template <> __device__ __forceinline__ bf16 narrow<bf16>(float x) { return __float2bfloat16_rn(x); }

// Eight values, in 16-byte accesses where the address allows it. Values after `count` read as 0 and
// are not written.
template <class T> __device__ __forceinline__ void load8(const T* from, long long count, float (&to)[8]) {
    if (count >= 8 && reinterpret_cast<size_t>(from) % 16 == 0) {
        alignas(16) T raw[8];
#pragma unroll
        for (int i = 0; i < (int)sizeof(T) / 2; i++)
            reinterpret_cast<uint4*>(raw)[i] = reinterpret_cast<const uint4*>(from)[i];
#pragma unroll
        for (int i = 0; i < 8; i++) to[i] = wide(raw[i]);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) to[i] = i < count ? wide(from[i]) : 0.0f;
    }
}

template <class T> __device__ __forceinline__ void store8(T* to, long long count, const float (&from)[8]) {
    if (count >= 8 && reinterpret_cast<size_t>(to) % 16 == 0) {
        alignas(16) T raw[8];
#pragma unroll
        for (int i = 0; i < 8; i++) raw[i] = narrow<T>(from[i]);
#pragma unroll
        for (int i = 0; i < (int)sizeof(T) / 2; i++)
            reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(raw)[i];
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < count) to[i] = narrow<T>(from[i]);
    }
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

// The sum over the threads of a row, in each of them: a warp, or the block, which then has barriers at
// both ends so that a second call is safe.
__device__ __forceinline__ float row_sum(float x, int threads) {
    __shared__ float parts[32];
    x = warp_sum(x);
    if (threads <= 32) return x;
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    float sum = 0.0f;
    for (int warp = 0; warp < threads / 32; warp++) sum += parts[warp];
    __syncthreads();
    return sum;
}

// ---- Normalisation ----------------------------------------------------------------------------

struct NormArgs {
    const void* x;
    void* out;
    const float* gamma;
    const float* beta;  // null: zero
    long long stride;   // values from one token to the next, in x and out
    long long first;    // first value of a token that is normalised
    long long rows;     // of all tokens
    int parts;          // rows of a token, one after the other
    int columns;        // values of a row, at most 32 for each of its threads
    int threads;        // of a row: a warp, or the block
    int rms;            // no mean is subtracted
    float eps;
};

// Mean and variance take two passes over registers.
template <class T> __device__ void norm(const NormArgs& a) {
    const int chunks = 4;
    const long long row = (long long)blockIdx.x * (blockDim.x / a.threads) + threadIdx.x / a.threads;
    if (row >= a.rows) return;
    const int thread = threadIdx.x % a.threads;
    const long long base = row / a.parts * a.stride + a.first + row % a.parts * a.columns;
    const T* x = static_cast<const T*>(a.x) + base;
    float v[chunks][8];
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < chunks; c++) {
        const int column = (c * a.threads + thread) * 8;
        if (column < a.columns) {
            load8(x + column, a.columns - column, v[c]);
#pragma unroll
            for (int i = 0; i < 8; i++) sum += v[c][i];
        }
    }
    const float mean = a.rms ? 0.0f : row_sum(sum, a.threads) / a.columns;
    sum = 0.0f;
#pragma unroll
    for (int c = 0; c < chunks; c++) {
        const int column = (c * a.threads + thread) * 8;
        if (column < a.columns) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                v[c][i] -= mean;
                if (column + i < a.columns) sum += v[c][i] * v[c][i];
            }
        }
    }
    const float factor = 1.0f / sqrtf(row_sum(sum, a.threads) / a.columns + a.eps);
    T* out = static_cast<T*>(a.out) + base;
#pragma unroll
    for (int c = 0; c < chunks; c++) {
        const int column = (c * a.threads + thread) * 8;
        if (column < a.columns) {
            float gamma[8], beta[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
            load8(a.gamma + column, a.columns - column, gamma);
            if (a.beta) load8(a.beta + column, a.columns - column, beta);
#pragma unroll
            for (int i = 0; i < 8; i++) v[c][i] = v[c][i] * factor * gamma[i] + beta[i];
            store8(out + column, a.columns - column, v[c]);
        }
    }
}

// ---- Activations ------------------------------------------------------------------------------

enum { IDENTITY, GELU, GELU_TANH, RELU, SILU, TANH };

__device__ __forceinline__ float logistic(float x) { return reciprocal(1.0f + power_of_two(-1.44269504088896341f * x)); }

// For results of 16 bits: errors of a few 1e-7 (GELU: Abramowitz & Stegun 7.1.26 for the complement of
// the error function, so that small results keep their digits).
__device__ __forceinline__ float activated_quickly(int kind, float x) {
    switch (kind) {
        case GELU: {
            const float size = fabsf(x), t = reciprocal(1.0f + 0.23164189f * size);
            float p = fmaf(1.061405429f, t, -1.453152027f);
            p = fmaf(p, t, 1.421413741f);
            p = fmaf(p, t, -0.284496736f);
            p = fmaf(p, t, 0.254829592f);
            const float complement = p * t * power_of_two(-0.72134752f * x * x);
            return fmaxf(x, 0.0f) - 0.5f * size * complement;
        }
        case GELU_TANH: return x * logistic(1.5957691216057308f * (x + 0.044715f * x * x * x));
        case RELU: return x < 0.0f ? 0.0f : x;  // keeps NaN
        case SILU: return x * logistic(x);
        case TANH: return tanhf(x);
        default: return x;
    }
}

template <class T> __device__ __forceinline__ float activated(int kind, float x) {
    if (sizeof(T) == 2) return activated_quickly(kind, x);
    switch (kind) {
        case GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
        case GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
        case SILU: return x / (1.0f + expf(-x));
        default: return activated_quickly(kind, x);
    }
}

struct ActivateArgs {
    void* x;         // changed in place
    const void* up;  // a factor for each value; null: 1
    long long count;
    int kind;
};

template <class T> __device__ void activate(const ActivateArgs& a) {
    const long long i = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * 8, left = a.count - i;
    if (left <= 0) return;
    T* x = static_cast<T*>(a.x) + i;
    float v[8];
    load8(x, left, v);
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] = activated<T>(a.kind, v[j]);
    if (a.up) {
        float up[8];
        load8(static_cast<const T*>(a.up) + i, left, up);
#pragma unroll
        for (int j = 0; j < 8; j++) v[j] *= up[j];
    }
    store8(x, left, v);
}

// ---- Tables -----------------------------------------------------------------------------------

struct GatherArgs {
    const void* table;
    void* out;
    const unsigned* rows;
    int columns;
    int add;  // to what `out` holds
};

// One block a row.
template <class T> __device__ void gather(const GatherArgs& a) {
    const T* from = static_cast<const T*>(a.table) + (long long)a.rows[blockIdx.x] * a.columns;
    T* out = static_cast<T*>(a.out) + (long long)blockIdx.x * a.columns;
    for (int column = threadIdx.x * 8; column < a.columns; column += blockDim.x * 8) {
        float v[8];
        load8(from + column, a.columns - column, v);
        if (a.add) {
            float old[8];
            load8(out + column, a.columns - column, old);
#pragma unroll
            for (int i = 0; i < 8; i++) v[i] += old[i];
        }
        store8(out + column, a.columns - column, v);
    }
}

// ---- Rotation of queries and keys -------------------------------------------------------------

struct RotateArgs {
    void* x;                  // tokens × (queries, keys, values) × width; queries and keys change in place
    const float* cos;         // rows × half
    const float* sin;
    const unsigned* rows;     // row of each token in cos and sin
    const float* query_gamma; // root-mean-square normalisation of each head before; null: none
    const float* key_gamma;
    float query_eps, key_eps;
    int query_heads, key_heads, width;
    int half;                 // pairs that are rotated, at most 128
    int neighbours;           // pairs are (2i, 2i + 1), else (i, i + half): `step` and `apart` below
};

// Two values in one access.
template <class T> struct alignas(2 * sizeof(T)) Two { T first, second; };

template <class T>
__device__ __forceinline__ void rotate_head(const RotateArgs& a, T* x, const float* gamma, float eps,
                                            const float (&factors)[2][2][2], const float (&cos)[2][2],
                                            const float (&sin)[2][2], bool vectors, int lane) {
    const int step = a.neighbours ? 2 : 1, apart = a.neighbours ? 1 : a.half;
    float p[2][2], q[2][2];
#pragma unroll
    for (int c = 0; c < 2; c++) {
        const int first = 64 * c + 2 * lane;
#pragma unroll
        for (int e = 0; e < 2; e++) p[c][e] = q[c][e] = 0.0f;
        if (first >= a.half) continue;
        if (vectors) {
            const auto ps = *reinterpret_cast<const Two<T>*>(x + first);
            const auto qs = *reinterpret_cast<const Two<T>*>(x + first + a.half);
            p[c][0] = wide(ps.first), p[c][1] = wide(ps.second);
            q[c][0] = wide(qs.first), q[c][1] = wide(qs.second);
        } else {
#pragma unroll
            for (int e = 0; e < 2; e++)
                if (first + e < a.half) {
                    p[c][e] = wide(x[(first + e) * step]);
                    q[c][e] = wide(x[(first + e) * step + apart]);
                }
        }
    }
    float size = 1.0f;
    if (gamma) {
        float sum = 0.0f;
#pragma unroll
        for (int c = 0; c < 2; c++)
#pragma unroll
            for (int e = 0; e < 2; e++) sum += p[c][e] * p[c][e] + q[c][e] * q[c][e];
        for (int i = 2 * a.half + lane; i < a.width; i += 32) sum += wide(x[i]) * wide(x[i]);
        size = rsqrtf(warp_sum(sum) / a.width + eps);
        for (int i = 2 * a.half + lane; i < a.width; i += 32) x[i] = narrow<T>(wide(x[i]) * size * gamma[i]);
    }
#pragma unroll
    for (int c = 0; c < 2; c++) {
        const int first = 64 * c + 2 * lane;
        if (first >= a.half) continue;
        float turned[2][2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            p[c][e] *= size * factors[c][e][0], q[c][e] *= size * factors[c][e][1];
            turned[0][e] = p[c][e] * cos[c][e] - q[c][e] * sin[c][e];
            turned[1][e] = q[c][e] * cos[c][e] + p[c][e] * sin[c][e];
        }
        if (vectors) {
            *reinterpret_cast<Two<T>*>(x + first) = {narrow<T>(turned[0][0]), narrow<T>(turned[0][1])};
            *reinterpret_cast<Two<T>*>(x + first + a.half) = {narrow<T>(turned[1][0]), narrow<T>(turned[1][1])};
        } else {
#pragma unroll
            for (int e = 0; e < 2; e++)
                if (first + e < a.half) {
                    x[(first + e) * step] = narrow<T>(turned[0][e]);
                    x[(first + e) * step + apart] = narrow<T>(turned[1][e]);
                }
        }
    }
}

// One block a token, one warp a head at a time. Lane l has the pairs 2l and 2l + 1 of a head and those
// 64 further; their angles and factors are read once. Values after the pairs are only normalised.
template <class T> __device__ void rotate(const RotateArgs& a) {
    const int lane = threadIdx.x % 32, heads = a.query_heads + a.key_heads;
    T* token = static_cast<T*>(a.x) + (long long)blockIdx.x * (heads + a.key_heads) * a.width;
    const long long row = (long long)a.rows[blockIdx.x] * a.half;
    const int step = a.neighbours ? 2 : 1, apart = a.neighbours ? 1 : a.half;
    const bool vectors = !a.neighbours && a.half % 2 == 0 && a.width % 2 == 0;
    float cos[2][2], sin[2][2];
#pragma unroll
    for (int c = 0; c < 2; c++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int pair = 64 * c + 2 * lane + e;
            cos[c][e] = pair < a.half ? a.cos[row + pair] : 0.0f;
            sin[c][e] = pair < a.half ? a.sin[row + pair] : 0.0f;
        }
    // First the queries, then the keys.
    for (int kind = 0; kind < 2; kind++) {
        const float* gamma = kind ? a.key_gamma : a.query_gamma;
        const float eps = kind ? a.key_eps : a.query_eps;
        float factors[2][2][2];
#pragma unroll
        for (int c = 0; c < 2; c++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int pair = 64 * c + 2 * lane + e, i = pair * step;
                const bool normed = gamma && pair < a.half;
                factors[c][e][0] = normed ? gamma[i] : 1.0f, factors[c][e][1] = normed ? gamma[i + apart] : 1.0f;
            }
        T* x = token + (long long)(kind ? a.query_heads : 0) * a.width;
        for (int head = threadIdx.x / 32; head < (kind ? a.key_heads : a.query_heads); head += blockDim.x / 32)
            rotate_head(a, x + head * a.width, gamma, eps, factors, cos, sin, vectors, lane);
    }
}

// ---- Pooling ----------------------------------------------------------------------------------

struct PoolArgs {
    const void* x;
    const float* weights;     // text by text, count × tokens
    float* out;               // texts × count × columns
    const unsigned* offsets;  // first row of each text, and the end
    int count;                // sums of each text
    int columns;
};

// One block a sum and 256 columns. Rows are added in order; rows of weight 0 are not read.
template <class T> __device__ void pool(const PoolArgs& a) {
    const unsigned text = blockIdx.x / a.count, sum = blockIdx.x % a.count;
    const int column = blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= a.columns) return;
    const long long first = a.offsets[text], rows = a.offsets[text + 1] - a.offsets[text];
    const float* weights = a.weights + first * a.count + sum * rows;
    const T* x = static_cast<const T*>(a.x) + first * a.columns + column;
    float total = 0.0f;
#pragma unroll 8
    for (long long row = 0; row < rows; row++) {
        const float weight = weights[row];
        if (weight != 0.0f) total += weight * wide(x[row * a.columns]);
    }
    a.out[(long long)blockIdx.x * a.columns + column] = total;
}

// ---- Attention --------------------------------------------------------------------------------

struct AttendArgs {
    const void* qkv;        // tokens × (queries, keys, values) × width
    void* out;              // tokens × query heads × width
    const unsigned* tiles;  // of each block: first row of its text, rows of its text, its first query
    const float* bias;      // heads × (2 · longest - 1) by key - query + longest - 1; null: none
    int query_heads, key_heads, width;
    int longest;
    float scale;
    int before, after;      // keys that a query sees before and after itself, below 2³⁰
};

// The text, heads and keys of a block.
struct Tile {
    long long start, stride;  // first row of the text; values of a row
    int n, query, head, keys_head;

    __device__ Tile(const AttendArgs& a) {
        const unsigned* own = a.tiles + 3ll * blockIdx.x;
        start = own[0], n = own[1], query = own[2];
        head = blockIdx.y, keys_head = head / (a.query_heads / a.key_heads);
        stride = (long long)(a.query_heads + 2 * a.key_heads) * a.width;
    }
    template <class T> __device__ const T* queries(const AttendArgs& a) const {
        return static_cast<const T*>(a.qkv) + start * stride + (long long)head * a.width;
    }
    template <class T> __device__ const T* keys(const AttendArgs& a) const {
        return static_cast<const T*>(a.qkv) + start * stride + (long long)(a.query_heads + keys_head) * a.width;
    }
    template <class T> __device__ T* context(const AttendArgs& a, int row) const {
        return static_cast<T*>(a.out) + ((start + row) * a.query_heads + head) * a.width;
    }
    __device__ const float* bias(const AttendArgs& a) const { return a.bias + (long long)head * (2 * a.longest - 1); }
    __device__ int first_key(const AttendArgs& a, int block) const { return max(query - a.before, 0) / block * block; }
    __device__ int last_key(const AttendArgs& a, int queries) const { return min(n, query + queries + a.after); }
};

__device__ __forceinline__ bool hidden(const AttendArgs& a, int n, int query, int key) {
    return key >= n || query - key > a.before || key - query > a.after;
}

// Fused multiply-adds in f32, for every type and width: 256 threads, 64 queries by 64 keys. A thread
// has 4 queries by 4 keys, then 4 queries by W / 16 columns.
template <class T, int W> __device__ void attend_f32(const AttendArgs& a) {
    const int size = 64, pitch = W + 4, columns = W / 16;
    DYNAMIC_SHARED(shared);
    float* sq = reinterpret_cast<float*>(shared);
    float* sk = sq + size * pitch;
    float* sv = sk + size * pitch;
    float* sp = sv + size * W;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const Tile tile(a);
    const T* keys = tile.keys<T>(a);
    const T* values = keys + (long long)a.key_heads * a.width;
    const auto copy = [&](const T* from, int first, float* to, int pitch) {
        for (int i = threadIdx.x; i < size * W; i += 256) {
            const int row = i / W, column = i % W;
            const bool inside = first + row < tile.n && column < a.width;
            to[row * pitch + column] = inside ? wide(from[(first + row) * tile.stride + column]) : 0.0f;
        }
    };
    float m[4], l[4], o[4][columns];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        m[i] = -INFINITY, l[i] = 0.0f;
#pragma unroll
        for (int c = 0; c < columns; c++) o[i][c] = 0.0f;
    }
    copy(tile.queries<T>(a), tile.query, sq, pitch);
    const int last = tile.last_key(a, size);
    for (int first = tile.first_key(a, size); first < last; first += size) {
        __syncthreads();
        copy(keys, first, sk, pitch);
        copy(values, first, sv, W);
        __syncthreads();
        float s[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) s[i][j] = 0.0f;
        for (int k = 0; k < a.width; k += 4) {
            float4 q[4], w[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                q[i] = *reinterpret_cast<const float4*>(sq + (ty * 4 + i) * pitch + k);
                w[i] = *reinterpret_cast<const float4*>(sk + (tx + 16 * i) * pitch + k);
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    s[i][j] = fmaf(q[i].x, w[j].x, s[i][j]);
                    s[i][j] = fmaf(q[i].y, w[j].y, s[i][j]);
                    s[i][j] = fmaf(q[i].z, w[j].z, s[i][j]);
                    s[i][j] = fmaf(q[i].w, w[j].w, s[i][j]);
                }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int query = tile.query + ty * 4 + i;
            float most = m[i];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int key = first + tx + 16 * j;
                s[i][j] *= a.scale;
                if (hidden(a, tile.n, query, key)) s[i][j] = -INFINITY;
                else if (a.bias && query < tile.n) s[i][j] += tile.bias(a)[a.longest - 1 + key - query];
                most = fmaxf(most, s[i][j]);
            }
#pragma unroll
            for (int step = 8; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
            const float base = most == -INFINITY ? 0.0f : most, factor = expf(m[i] - base);
            m[i] = most;
            l[i] *= factor;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float p = expf(s[i][j] - base);
                l[i] += p;
                sp[(ty * 4 + i) * (size + 4) + tx + 16 * j] = p;
            }
#pragma unroll
            for (int c = 0; c < columns; c++) o[i][c] *= factor;
        }
        __syncthreads();
        const int count = min(size, tile.n - first);
        for (int key = 0; key < count; key++) {
            float v[columns];
#pragma unroll
            for (int c = 0; c < columns; c++) v[c] = sv[key * W + tx + 16 * c];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float p = sp[(ty * 4 + i) * (size + 4) + key];
#pragma unroll
                for (int c = 0; c < columns; c++) o[i][c] = fmaf(p, v[c], o[i][c]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float sum = l[i];
#pragma unroll
        for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        const int query = tile.query + ty * 4 + i;
        if (query >= tile.n) continue;
        T* out = tile.context<T>(a, query);
#pragma unroll
        for (int c = 0; c < columns; c++)
            if (tx + 16 * c < a.width) out[tx + 16 * c] = narrow<T>(o[i][c] / sum);
    }
}

#ifdef __CUDACC__
// Copies 16 bytes to shared memory in the background, or zeros.
__device__ __forceinline__ void copy16(void* to, const void* from, bool inside) {
    const unsigned place = (unsigned)__cvta_generic_to_shared(to);
    const int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LATER> __device__ __forceinline__ void await() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}
// Four 8 × 8 matrices, a row of eight 16-bit values a lane.
__device__ __forceinline__ void matrices(unsigned (&to)[4], const void* row) {
    const unsigned place = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(place) : "memory");
}
__device__ __forceinline__ void matrices_transposed(unsigned (&to)[4], const void* row) {
    const unsigned place = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(place) : "memory");
}
// c += a · b, 16 × 8 from 16 × 16 and 16 × 8.
template <class T> __device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);
template <> __device__ __forceinline__ void multiply<bf16>(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> __device__ __forceinline__ void multiply<f16>(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// Two values in 32 bits, the first in the lower half.
template <class T> __device__ __forceinline__ unsigned pair(float first, float second) {
    const T both[2] = {narrow<T>(first), narrow<T>(second)};
    unsigned bits;
    memcpy(&bits, both, 4);
    return bits;
}

// Place of a chunk of 8 values in a tile of rows of W values, such that eight rows of one chunk lie in
// different banks.
template <int W> __device__ __forceinline__ int place(int row, int chunk) {
    return row * W + (W >= 64 ? chunk ^ (row & 7) : chunk ^ (row >> 1 & 3)) * 8;
}

// Matrix units, for 16-bit types and widths that are multiples of 8 up to W (Dao 2023). A warp has
// 16 · TILES queries, and KEYS keys with their values are in shared memory while the next ones arrive.
template <class T, int W, int WARPS, int TILES, int KEYS> __device__ void attend(const AttendArgs& a) {
    const int own = 16 * TILES, queries = own * WARPS, threads = 32 * WARPS, chunks = W / 8;
    const float log2e = 1.44269504088896341f;
    DYNAMIC_SHARED(shared);
    T* sq = reinterpret_cast<T*>(shared);
    T* skv = sq + queries * W;  // two stages of keys and values
    // Two stages of the bias by key - query + queries - 1 inside the tile.
    float* sb = reinterpret_cast<float*>(skv + 4 * KEYS * W);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Tile tile(a);
    const T* keys = tile.keys<T>(a);
    const T* values = keys + (long long)a.key_heads * a.width;
    // A thread copies one chunk of every `step`th row.
    const int chunk = threadIdx.x % chunks, line = threadIdx.x / chunks, step = threads / chunks;
    const auto copy = [&](const T* from, int first, int rows, T* to) {
        const T* source = from + (first + line) * tile.stride + chunk * 8;
        const int left = chunk * 8 < a.width ? tile.n - first : 0;
#pragma unroll
        for (int row = line; row < rows; row += step, source += step * tile.stride)
            copy16(to + place<W>(row, chunk), row < left ? source : from, row < left);
    };
    const auto copy_stage = [&](int first, int stage) {
        copy(keys, first, KEYS, skv + 2 * stage * KEYS * W);
        copy(values, first, KEYS, skv + (2 * stage + 1) * KEYS * W);
        commit();
        if (!a.bias) return;
        for (int i = threadIdx.x; i < queries + KEYS - 1; i += threads) {
            const int at = a.longest - 1 + first - tile.query + i - (queries - 1);
            sb[stage * (queries + KEYS) + i] = at >= 0 && at < 2 * a.longest - 1 ? tile.bias(a)[at] * log2e : 0.0f;
        }
    };
    const int last = tile.last_key(a, queries);
    int first = tile.first_key(a, KEYS);
    copy(tile.queries<T>(a), tile.query, queries, sq);
    copy_stage(first, 0);

    const int row = own * warp + lane / 4;  // and row + 8, + 16, ...
    const int query = tile.query + own * warp;
    const float scale = a.scale * log2e;
    float o[TILES][W / 8][4], m[TILES][2], l[TILES][2];
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int r = 0; r < 2; r++) m[t][r] = -INFINITY, l[t][r] = 0.0f;
#pragma unroll
        for (int c = 0; c < W / 8; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) o[t][c][e] = 0.0f;
    }

    for (int stage = 0; first < last; first += KEYS, stage ^= 1) {
        await<0>();
        __syncthreads();
        if (first + KEYS < last) copy_stage(first + KEYS, stage ^ 1);
        // A warp whose queries see none of these keys has nothing to do.
        if (query >= tile.n || first > query + own - 1 + a.after || first + KEYS - 1 < query - a.before) continue;
        const T* sk = skv + 2 * stage * KEYS * W;
        const T* sv = sk + KEYS * W;
        float s[TILES][KEYS / 8][4];
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int c = 0; c < KEYS / 8; c++)
#pragma unroll
                for (int e = 0; e < 4; e++) s[t][c][e] = 0.0f;
#pragma unroll
        for (int k = 0; k < W / 16; k++) {
            unsigned q[TILES][4];
#pragma unroll
            for (int t = 0; t < TILES; t++)
                matrices(q[t], sq + place<W>(own * warp + 16 * t + lane % 16, 2 * k + lane / 16));
#pragma unroll
            for (int c = 0; c < KEYS / 16; c++) {
                unsigned w[4];
                matrices(w, sk + place<W>(16 * c + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
                for (int t = 0; t < TILES; t++) {
                    multiply<T>(s[t][2 * c], q[t], w[0], w[1]);
                    multiply<T>(s[t][2 * c + 1], q[t], w[2], w[3]);
                }
            }
        }
        // The scale is applied with the exponential where nothing else is done to the scores.
        const bool whole = first + KEYS <= tile.n && query + own - 1 - first <= a.before &&
                           first + KEYS - 1 - query <= a.after;
        const float factor = a.bias || !whole ? 1.0f : scale;
        if (a.bias || !whole) {
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    // This query sees the keys from `low` to `high` of those here; a lane has the keys
                    // 8c and 8c + 1, counted from its own first.
                    const int line = row + 16 * t + 8 * r, own_key = lane % 4 * 2, key = first + own_key;
                    const int low = tile.query + line - a.before - key;
                    const int high = min(tile.n - 1, tile.query + line + a.after) - key;
                    const float* bias = sb + stage * (queries + KEYS) + queries - 1 + own_key - line;
#pragma unroll
                    for (int c = 0; c < KEYS / 8; c++)
#pragma unroll
                        for (int e = 0; e < 2; e++) {
                            float& score = s[t][c][2 * r + e];
                            score *= scale;
                            if (a.bias) score += bias[8 * c + e];
                            if (8 * c + e < low || 8 * c + e > high) score = -INFINITY;
                        }
                }
        }
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float most = -INFINITY;
#pragma unroll
                for (int c = 0; c < KEYS / 8; c++) most = fmaxf(most, fmaxf(s[t][c][2 * r], s[t][c][2 * r + 1]));
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
                most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
                most = fmaxf(m[t][r], most * factor);
                const float base = most == -INFINITY ? 0.0f : most, shrink = power_of_two(m[t][r] - base);
                m[t][r] = most;
                l[t][r] *= shrink;
#pragma unroll
                for (int c = 0; c < KEYS / 8; c++)
#pragma unroll
                    for (int e = 2 * r; e < 2 * r + 2; e++) {
                        s[t][c][e] = power_of_two(fmaf(s[t][c][e], factor, -base));
                        l[t][r] += s[t][c][e];
                    }
                // Seldom needed once the largest score was seen.
                if (__any_sync(0xffffffffu, shrink != 1.0f)) {
#pragma unroll
                    for (int c = 0; c < W / 8; c++) o[t][c][2 * r] *= shrink, o[t][c][2 * r + 1] *= shrink;
                }
            }
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
            unsigned p[TILES][4];
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    p[t][e] = pair<T>(s[t][2 * k + e / 2][e % 2 * 2], s[t][2 * k + e / 2][e % 2 * 2 + 1]);
#pragma unroll
            for (int c = 0; c < W / 16; c++) {
                unsigned v[4];
                matrices_transposed(v, sv + place<W>(16 * k + lane % 16, 2 * c + lane / 16));
#pragma unroll
                for (int t = 0; t < TILES; t++) {
                    multiply<T>(o[t][2 * c], p[t], v[0], v[1]);
                    multiply<T>(o[t][2 * c + 1], p[t], v[2], v[3]);
                }
            }
        }
    }
    if (query >= tile.n) return;
    // Through the warp's own queries in shared memory, so that 16 bytes are written at once.
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            l[t][r] += __shfl_xor_sync(0xffffffffu, l[t][r], 1);
            l[t][r] += __shfl_xor_sync(0xffffffffu, l[t][r], 2);
            const float share = 1.0f / l[t][r];
#pragma unroll
            for (int c = 0; c < W / 8; c++) {
                const unsigned both = pair<T>(o[t][c][2 * r] * share, o[t][c][2 * r + 1] * share);
                memcpy(sq + place<W>(row + 16 * t + 8 * r, c) + lane % 4 * 2, &both, 4);
            }
        }
    __syncwarp();
    for (int i = lane; i < own * chunks; i += 32) {
        const int line = i / chunks, chunk = i % chunks;
        if (query + line < tile.n && chunk * 8 < a.width)
            *reinterpret_cast<uint4*>(tile.context<T>(a, query + line) + chunk * 8) =
                *reinterpret_cast<const uint4*>(sq + place<W>(own * warp + line, chunk));
    }
}

// ---- Entry points -----------------------------------------------------------------------------

// The sizes of the same structs in src/backend/candle/cuda.
static_assert(sizeof(NormArgs) == 80 && sizeof(ActivateArgs) == 32 && sizeof(GatherArgs) == 32, "");
static_assert(sizeof(RotateArgs) == 80 && sizeof(PoolArgs) == 40 && sizeof(AttendArgs) == 64, "");

#define SIMPLE(name, args, threads)                                                                          \
    extern "C" __global__ void __launch_bounds__(threads) name##_f32(args a) { name<float>(a); }             \
    extern "C" __global__ void __launch_bounds__(threads) name##_f16(args a) { name<f16>(a); }               \
    extern "C" __global__ void __launch_bounds__(threads) name##_bf16(args a) { name<bf16>(a); }
SIMPLE(norm, NormArgs, 1024)
SIMPLE(activate, ActivateArgs, 256)
SIMPLE(gather, GatherArgs, 128)
SIMPLE(rotate, RotateArgs, 128)
SIMPLE(pool, PoolArgs, 256)

#define ATTEND_F32(W)                                                                                        \
    extern "C" __global__ void __launch_bounds__(256) attend_f32_##W(AttendArgs a) { attend_f32<float, W>(a); }
ATTEND_F32(32) ATTEND_F32(64) ATTEND_F32(128) ATTEND_F32(256)

// Warps of a block, sixteens of queries of a warp, keys at a time, blocks of a multiprocessor. A text
// has the same bits in every batch as long as its kernel is chosen by its own length.
#define ATTEND(T, W, WARPS, TILES, KEYS, BLOCKS)                                                             \
    extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) attend_##T##_##W##_##WARPS##x##TILES(AttendArgs a) { \
        attend<T, W, WARPS, TILES, KEYS>(a);                                                                 \
    }
#define ATTEND_SHORT(T, W, BLOCKS)                                                                           \
    ATTEND(T, W, 1, 1, 16, 4 * BLOCKS) ATTEND(T, W, 2, 1, 32, 2 * BLOCKS) ATTEND(T, W, 4, 1, 64, BLOCKS)
#define ATTEND_TYPE(T)                                                                                       \
    ATTEND_SHORT(T, 32, 4) ATTEND_SHORT(T, 64, 4) ATTEND_SHORT(T, 128, 4) ATTEND_SHORT(T, 256, 2)            \
    ATTEND(T, 32, 4, 2, 64, 3) ATTEND(T, 64, 8, 1, 64, 2) ATTEND(T, 128, 4, 2, 64, 2) ATTEND(T, 256, 8, 1, 64, 1)
ATTEND_TYPE(f16) ATTEND_TYPE(bf16)
