// Compares each kernel with plain code in double precision, on the CPU (`check` builds and runs this).
// Each case runs in three orders of its threads, which must give equal bits.

#include <cstdarg>
#include <string>

#include "kernels.cu"

using std::string;
using std::vector;

// ---- Checks and buffers -----------------------------------------------------------------------

int checks, failures;

__attribute__((format(printf, 2, 3))) void check(bool holds, const char* format, ...) {
    checks++;
    if (holds) return;
    if (++failures > 40) return;
    va_list values;
    va_start(values, format);
    printf("FAILED: ");
    vprintf(format, values);
    printf("\n");
    fflush(stdout);
    va_end(values);
}

string text(const char* format, ...) {
    char line[300];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    return line;
}

template <class T> const char* name() { return sizeof(T) == 4 ? "f32" : std::is_same_v<T, f16> ? "f16" : "bf16"; }

// The most that one rounding to T changes a value; values of f16 below 2⁻¹⁴ have a fixed distance.
template <class T> double rounding(double value) {
    if (std::is_same_v<T, f16>) return 1.01 * max(0x1p-11 * std::abs(value), 0x1p-25);
    return 1.01 * (sizeof(T) == 4 ? 0x1p-24 : 0x1p-8) * std::abs(value);
}

template <class T> bool equal(const vector<T>& a, const vector<T>& b) {
    return a.size() == b.size() && !memcmp(a.data(), b.data(), a.size() * sizeof(T));
}

// Values for a kernel to write, between sentinels.
template <class T> struct Output {
    static const int GUARD = 16;
    vector<T> all;
    size_t count;

    explicit Output(size_t count) : all(count + 2 * GUARD), count(count) {
        memset(all.data(), 0xa5, all.size() * sizeof(T));
        memset((void*)data(), 0xff, count * sizeof(T));  // NaN
    }
    T* data() { return all.data() + GUARD; }
    bool guarded() {
        const auto* bytes = reinterpret_cast<const unsigned char*>(all.data());
        for (size_t i = 0; i < GUARD * sizeof(T); i++)
            if (bytes[i] != 0xa5 || bytes[all.size() * sizeof(T) - 1 - i] != 0xa5) return false;
        return true;
    }
};

// The output of `launch` in each order, which starts as `initial`, or as NaN if that is empty.
template <class T, class Launch>
vector<T> in_each_order(const string& what, size_t count, const vector<T>& initial, const Launch& launch) {
    vector<T> results;
    for (const auto order : {host::ASCENDING, host::DESCENDING, host::SHUFFLED}) {
        Output<T> out(count);
        if (!initial.empty()) std::copy(initial.begin(), initial.end(), out.data());
        launch(out.data(), order);
        check(out.guarded(), "%s: written outside its output", what.c_str());
        const vector<T> own(out.data(), out.data() + count);
        if (order == host::ASCENDING) results = own;
        else check(equal(own, results), "%s: other bits in order %d", what.c_str(), order);
    }
    return results;
}

// `want` and `error` give the value and tolerance of each index. NaN is expected where `want` is NaN.
template <class T, class Want, class Error>
void compare(const string& what, const vector<T>& got, const Want& want, const Error& error) {
    size_t wrong = 0, worst = 0;
    double most = -INFINITY;
    for (size_t i = 0; i < got.size(); i++) {
        const double value = wide(got[i]), expected = want(i), excess = std::abs(value - expected) - error(i);
        const bool right = std::isnan(expected) ? std::isnan(value) : excess <= 0;
        wrong += !right;
        if (!right && !(excess <= most)) most = excess, worst = i;
    }
    check(wrong == 0, "%s: %zu of %zu values are wrong; value %zu is %g, not %g", what.c_str(), wrong, got.size(),
          worst, wrong ? (double)wide(got[worst]) : 0, wrong ? want(worst) : 0);
}

uint64_t state = 1;
double random(double low, double high) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(state >> 40) / (double)(1 << 24);
}
template <class T> vector<T> values(size_t count, double low = -2, double high = 2) {
    vector<T> result(count);
    for (T& value : result) value = narrow<T>((float)random(low, high));
    return result;
}

// ---- Kernels of one row or value --------------------------------------------------------------

template <class T> struct Kernels;
#define KERNELS(T, S)                                                              \
    template <> struct Kernels<T> {                                                \
        static constexpr auto norm = norm_##S;                                     \
        static constexpr auto activate = activate_##S;                             \
        static constexpr auto gather = gather_##S;                                 \
        static constexpr auto rotate = rotate_##S;                                 \
        static constexpr auto pool = pool_##S;                                     \
    };
KERNELS(float, f32) KERNELS(f16, f16) KERNELS(bf16, bf16)

// In place if the rows are parts of a longer token, which keeps its other values.
template <class T> void test_norm(int columns, bool rms, bool with_beta, int parts, unsigned threads) {
    const string what = text("norm_%s, %d columns, rms %d, beta %d, %d parts, %u threads", name<T>(), columns, rms,
                             with_beta, parts, threads);
    const bool in_place = parts > 1;
    const int tokens = 3, first = in_place ? 5 : 0, stride = in_place ? first + parts * columns + 3 : columns;
    const auto x = values<T>(tokens * stride, -1, 3);
    const auto gamma = values<float>(columns), beta = values<float>(columns);
    const auto got = in_each_order(what, x.size(), in_place ? x : vector<T>(), [&](T* out, host::Order order) {
        // Four rows of one warp share a block.
        const unsigned rows = tokens * parts, together = threads == 32 ? 4 : 1;
        const NormArgs args{in_place ? out : x.data(), out, gamma.data(), with_beta ? beta.data() : nullptr,
                            stride, first, rows, parts, columns, (int)threads, rms, 1e-5f};
        host::launch(Kernels<T>::norm, {(rows + together - 1) / together}, {threads * together}, 0, args, order);
    });
    vector<double> want(x.size());
    for (size_t i = 0; i < x.size(); i++) want[i] = wide(x[i]);
    for (int row = 0; row < tokens * parts; row++) {
        double* own = &want[row / parts * stride + first + row % parts * columns];
        double mean = 0, variance = 0;
        for (int i = 0; i < columns && !rms; i++) mean += own[i] / columns;
        for (int i = 0; i < columns; i++) variance += (own[i] - mean) * (own[i] - mean) / columns;
        for (int i = 0; i < columns; i++)
            own[i] = (own[i] - mean) / std::sqrt(variance + 1e-5f) * gamma[i] + (with_beta ? beta[i] : 0);
    }
    // A mean that is a little wrong shows in values near it.
    compare(what, got, [&](size_t i) { return want[i]; },
            [&](size_t i) { return rounding<T>(want[i]) + 3e-6 * (1 + std::abs(want[i])); });
}

template <class T> void test_norms() {
    for (const int columns : {1, 7, 8, 24, 384, 1000, 1024, 4096, 8200})
        for (const bool rms : {false, true}) {
            const unsigned threads = (columns + 1023) / 1024 * 32;
            test_norm<T>(columns, rms, !rms, 1, threads);
            test_norm<T>(columns, rms, rms, 3, threads);
        }
    test_norm<T>(32768, false, true, 1, 1024);
}

template <class T> void test_activate(int kind, size_t count, bool with_up) {
    const string what = text("activate_%s, kind %d, %zu values, up %d", name<T>(), kind, count, with_up);
    auto x = values<T>(count, -8, 8), up = values<T>(count);
    x[count / 3] = narrow<T>(-0.0f);
    x[count / 2] = narrow<T>(NAN);
    const auto got = in_each_order(what, count, x, [&](T* out, host::Order order) {
        const ActivateArgs args{out, with_up ? up.data() : nullptr, (long long)count, kind};
        host::launch(Kernels<T>::activate, {(unsigned)((count + 2047) / 2048)}, {256}, 0, args, order);
    });
    const auto factor = [&](size_t i) { return with_up ? (double)wide(up[i]) : 1; };
    const auto want = [&](size_t i) {
        const double v = wide(x[i]);
        double y = v;
        if (kind == GELU) y = 0.5 * v * std::erfc(-v * M_SQRT1_2);
        if (kind == GELU_TANH) y = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
        if (kind == RELU) y = v < 0 ? 0 : v;
        if (kind == SILU) y = v / (1 + std::exp(-v));
        if (kind == TANH) y = std::tanh(v);
        return y * factor(i);
    };
    // 1 + erf and 1 + tanh lose what the sum cancels.
    compare(what, got, want, [&](size_t i) {
        return rounding<T>(want(i)) + 3e-7 * (std::abs(want(i)) + std::abs(wide(x[i]) * factor(i)));
    });
}

template <class T> void test_activates() {
    for (const int kind : {IDENTITY, GELU, GELU_TANH, RELU, SILU, TANH})
        for (const size_t count : {1, 7, 8, 2043, 5001})
            for (const bool up : {false, true}) test_activate<T>(kind, count, up);
}

template <class T> void test_gather(int columns, bool add) {
    const string what = text("gather_%s, %d columns, add %d", name<T>(), columns, add);
    const vector<unsigned> rows{3, 0, 6, 6, 1};
    const auto table = values<T>(7 * columns), old = values<T>(rows.size() * columns);
    const auto got = in_each_order(what, old.size(), add ? old : vector<T>(), [&](T* out, host::Order order) {
        const GatherArgs args{table.data(), out, rows.data(), columns, add};
        host::launch(Kernels<T>::gather, {(unsigned)rows.size()}, {128}, 0, args, order);
    });
    const auto want = [&](size_t i) {
        return wide(table[rows[i / columns] * columns + i % columns]) + (add ? (double)wide(old[i]) : 0);
    };
    compare(what, got, want, [&](size_t i) { return add ? rounding<T>(want(i)) + 1e-30 : 1e-30; });
}

template <class T> void test_gathers() {
    for (const int columns : {1, 12, 384, 1028})
        for (const bool add : {false, true}) test_gather<T>(columns, add);
}

template <class T> void test_rotate(int width, int half, bool neighbours, bool with_gamma) {
    const string what = text("rotate_%s, width %d, %d pairs, neighbours %d, gamma %d", name<T>(), width, half, neighbours,
                             with_gamma);
    const int hq = 4, hk = 2, heads = hq + 2 * hk;
    const vector<unsigned> rows{0, 4, 2};
    const auto x = values<T>(rows.size() * heads * width);
    const auto cosines = values<float>(5 * half, -1, 1), sines = values<float>(5 * half, -1, 1);
    const auto query_gamma = values<float>(width), key_gamma = values<float>(width);
    const auto got = in_each_order(what, x.size(), x, [&](T* out, host::Order order) {
        const RotateArgs args{out, cosines.data(), sines.data(), rows.data(), with_gamma ? query_gamma.data() : nullptr,
                              with_gamma ? key_gamma.data() : nullptr, 1e-6f, 0.5f, hq, hk, width, half, neighbours};
        host::launch(Kernels<T>::rotate, {(unsigned)rows.size()}, {128}, 0, args, order);
    });
    vector<double> want(x.size()), size(x.size());
    for (size_t i = 0; i < x.size(); i++) want[i] = wide(x[i]);
    for (size_t head = 0; head < rows.size() * heads; head++) {
        if ((int)(head % heads) >= hq + hk) continue;
        double* own = &want[head * width];
        const bool query = (int)(head % heads) < hq;
        double sum = query ? 1e-6f : 0.5f;
        for (int i = 0; i < width; i++) sum += own[i] * own[i] / width;
        for (int i = 0; i < width && with_gamma; i++) own[i] *= (query ? query_gamma : key_gamma)[i] / std::sqrt(sum);
        for (int pair = 0; pair < half; pair++) {
            const int i = neighbours ? 2 * pair : pair, j = neighbours ? 2 * pair + 1 : pair + half;
            const double p = own[i], q = own[j], c = cosines[rows[head / heads] * half + pair],
                         s = sines[rows[head / heads] * half + pair];
            own[i] = p * c - q * s, own[j] = q * c + p * s;
            size[head * width + i] = size[head * width + j] = std::abs(p) + std::abs(q);
        }
        for (int i = 2 * half; i < width && with_gamma; i++) size[head * width + i] = std::abs(own[i]);
    }
    // Size 0: the value stays.
    compare(what, got, [&](size_t i) { return want[i]; },
            [&](size_t i) { return size[i] ? rounding<T>(want[i]) + 1e-6 * size[i] : 1e-30; });
}

template <class T> void test_rotates() {
    for (const int width : {8, 64, 96, 128, 256})
        for (const int half : {width / 2, width / 4, 3})
            for (const bool neighbours : {false, true})
                for (const bool gamma : {false, true}) test_rotate<T>(width, half, neighbours, gamma);
}

template <class T> void test_pool(int count) {
    const string what = text("pool_%s, %d sums", name<T>(), count);
    const int columns = 300;
    const vector<unsigned> offsets{0, 3, 3, 4, 13, 13}, lengths{3, 0, 1, 9, 0};
    auto x = values<T>(13 * columns);
    auto weights = values<float>(13 * count);
    for (int sum = 0; sum < count; sum++) weights[4 * count + 9 * sum + 2] = 0;  // row 2 of text 3
    for (int i = 0; i < columns; i++) x[6 * columns + i] = narrow<T>(NAN);
    const auto got = in_each_order<float>(what, lengths.size() * count * columns, {}, [&](float* out, host::Order order) {
        const PoolArgs args{x.data(), weights.data(), out, offsets.data(), count, columns};
        host::launch(Kernels<T>::pool, {(unsigned)lengths.size() * count, 2}, {256}, 0, args, order);
    });
    const auto want = [&](size_t i) {
        const size_t text = i / columns / count, sum = i / columns % count;
        double total = 0;
        for (unsigned row = 0; row < lengths[text]; row++) {
            const double weight = weights[offsets[text] * count + sum * lengths[text] + row];
            if (weight) total += weight * wide(x[(offsets[text] + row) * columns + i % columns]);
        }
        return total;
    };
    compare(what, got, want, [&](size_t i) { return 3e-6 * (1 + std::abs(want(i))); });
}

template <class T> void test_pools() {
    test_pool<T>(1);
    test_pool<T>(2);
}

// ---- Attention --------------------------------------------------------------------------------

using Attend = void (*)(AttendArgs);

// Warps of a block, and sixteens of queries of a warp.
struct Warps { int count, tiles; };

template <class T> Attend attend_kernel(int W, Warps warps) {
#define CASE(T, W, WARPS, TILES) \
    if (w == W && warps.count == WARPS && warps.tiles == TILES) return attend_##T##_##W##_##WARPS##x##TILES;
#define CASES(T, W) CASE(T, W, 1, 1) CASE(T, W, 2, 1) CASE(T, W, 4, 1)
#define LONG_CASES(T) CASE(T, 32, 4, 2) CASE(T, 64, 8, 1) CASE(T, 128, 4, 2) CASE(T, 256, 8, 1)
    const int w = W;
    if constexpr (sizeof(T) == 4) return w == 32 ? attend_f32_32 : w == 64 ? attend_f32_64 : w == 128 ? attend_f32_128 : attend_f32_256;
    if constexpr (std::is_same_v<T, f16>) { CASES(f16, 32) CASES(f16, 64) CASES(f16, 128) CASES(f16, 256) LONG_CASES(f16) }
    if constexpr (std::is_same_v<T, bf16>) { CASES(bf16, 32) CASES(bf16, 64) CASES(bf16, 128) CASES(bf16, 256) LONG_CASES(bf16) }
    return nullptr;
}

const int ALL = (1 << 30) - 1;

struct Batch {
    int width, query_heads, key_heads;
    vector<int> texts;            // rows of each; negative: in no tile
    int before = ALL, after = ALL;
    int longest = 0;              // 0: no bias
    float scale = 0.11f;
    int nan_text = -1, seed = 1;
    // Made from these: values that all types represent, in the order of AttendArgs.
    vector<double> qkv = {};
    vector<float> bias = {};
    vector<int> first = {};
    vector<double> want = {}, size = {};  // context, and the same sum of absolute values

    int rows() const { return first.back(); }
    int stride() const { return (query_heads + 2 * key_heads) * width; }
    string described() const {
        return text("width %d, heads %d and %d, before %d, after %d, longest %d", width, query_heads, key_heads, before,
                    after, longest);
    }

    // A text's values depend on its number of rows only.
    Batch& prepare() {
        first = {0};
        for (const int rows : texts) first.push_back(first.back() + std::abs(rows));
        qkv.clear();
        for (size_t t = 0; t < texts.size(); t++) {
            state = seed + 1000 * std::abs(texts[t]);
            for (int i = 0; i < std::abs(texts[t]) * stride(); i++)
                qkv.push_back((int)t == nan_text ? NAN : std::round(random(-128, 128)) / 64);
        }
        state = seed;
        if (longest) bias = values<float>(query_heads * (2 * longest - 1), -3, 3);
        return *this;
    }

    HOST_UNCHECKED Batch& solve() {
        prepare();
        want.assign(rows() * query_heads * width, 0), size = want;
        for (size_t t = 0; t < texts.size(); t++)
            for (int head = 0; head < query_heads; head++)
                for (int query = 0; query < texts[t]; query++) {
                    const double* base = qkv.data() + (long)first[t] * stride();
                    const double* q = base + query * stride() + head * width;
                    const double* k = base + (query_heads + head / (query_heads / key_heads)) * width;
                    const double* v = k + key_heads * width;
                    const int from = max(query - before, 0), to = min(texts[t], query + 1 + min(after, texts[t]));
                    double p[1024], most = -INFINITY, sum = 0;
                    for (int key = from; key < to; key++) {
                        double s = 0;
                        for (int c = 0; c < width; c++) s += q[c] * k[key * stride() + c];
                        p[key] = s * scale;
                        if (longest) p[key] += bias[head * (2 * longest - 1) + longest - 1 + key - query];
                        most = max(most, p[key]);
                    }
                    for (int key = from; key < to; key++) sum += p[key] = std::exp(p[key] - most);
                    double* own = &want[((first[t] + query) * query_heads + head) * width];
                    double* own_size = &size[((first[t] + query) * query_heads + head) * width];
                    for (int key = from; key < to; key++)
                        for (int c = 0; c < width; c++) {
                            const double term = p[key] / sum * v[key * stride() + c];
                            own[c] += term, own_size[c] += std::abs(term);
                        }
                }
        return *this;
    }
};

template <class T> vector<T> attended(const Batch& batch, int W, Warps warps, const string& what) {
    const int queries = sizeof(T) == 4 ? 64 : 16 * warps.count * warps.tiles;
    const int keys = min(queries, 64);
    const size_t shared = sizeof(T) == 4 ? 4 * (2 * 64 * (W + 4) + 64 * W + 64 * 68)
                                         : 2 * W * (queries + 4 * keys) + 8 * (queries + keys);
    vector<unsigned> tiles;
    for (size_t t = 0; t < batch.texts.size(); t++)
        for (int query = 0; query < batch.texts[t]; query += queries)
            tiles.insert(tiles.end(), {(unsigned)batch.first[t], (unsigned)batch.texts[t], (unsigned)query});
    vector<T> qkv(batch.qkv.size());
    for (size_t i = 0; i < qkv.size(); i++) qkv[i] = narrow<T>((float)batch.qkv[i]);
    return in_each_order<T>(what, (size_t)batch.rows() * batch.query_heads * batch.width, {}, [&](T* out, host::Order order) {
        const AttendArgs args{qkv.data(), out, tiles.data(), batch.longest ? batch.bias.data() : nullptr,
                              batch.query_heads, batch.key_heads, batch.width, batch.longest, batch.scale,
                              batch.before, batch.after};
        host::launch(attend_kernel<T>(W, warps), {(unsigned)tiles.size() / 3, (unsigned)batch.query_heads},
                     {sizeof(T) == 4 ? 256u : 32u * warps.count}, shared, args, order);
    });
}

template <class T> string described(const Batch& batch, int W, Warps warps) {
    return text("attend_%s_%d_%dx%d, %s", name<T>(), W, warps.count, warps.tiles, batch.described().c_str());
}

template <class T> void test_attend(const Batch& batch, int W, Warps warps) {
    const string what = described<T>(batch, W, warps);
    auto got = attended<T>(batch, W, warps, what);
    const int row = batch.query_heads * batch.width;
    for (size_t t = 0; t < batch.texts.size(); t++) {
        if (batch.texts[t] > 0) continue;
        const auto* bytes = reinterpret_cast<const unsigned char*>(&got[batch.first[t] * row]);
        check(std::all_of(bytes, bytes - batch.texts[t] * row * sizeof(T), [](unsigned char b) { return b == 0xff; }),
              "%s: a text that is in no tile was written", what.c_str());
        std::fill_n(got.begin() + batch.first[t] * row, -batch.texts[t] * row, narrow<T>(0.0f));
    }
    // Probabilities and results are rounded to T. Scores of up to about 30 have errors of f32.
    compare(what, got, [&](size_t i) { return batch.want[i]; }, [&](size_t i) {
        return rounding<T>(batch.want[i]) + (sizeof(T) == 4 ? 0 : rounding<T>(batch.size[i])) + 5e-6 * batch.size[i] + 1e-7;
    });
}

template <class T> vector<T> rows_of(const Batch& batch, const vector<T>& all, int text) {
    const int row = batch.query_heads * batch.width;
    return {all.begin() + batch.first[text] * row, all.begin() + batch.first[text + 1] * row};
}

// A text's bits depend neither on its place, nor on its neighbours, nor on the kernel if it is short.
template <class T> void test_bits(Batch batch, int W, Warps warps) {
    const string what = described<T>(batch, W, warps);
    batch.texts = {70, 16, 5, 33, 16, 70, 9};
    const auto plain = attended<T>(batch.prepare(), W, warps, what);
    check(equal(rows_of(batch, plain, 0), rows_of(batch, plain, 5)), "%s: other bits at another place", what.c_str());
    check(equal(rows_of(batch, plain, 1), rows_of(batch, plain, 4)), "%s: other bits at another place", what.c_str());
    if constexpr (sizeof(T) == 2)
        if (warps.count > 1) {
            const auto other = attended<T>(batch, W, {1, 1}, what);
            for (const int short_text : {1, 2, 4, 6})
                check(equal(rows_of(batch, plain, short_text), rows_of(batch, other, short_text)),
                      "%s: other bits with one warp", what.c_str());
        }
    batch.nan_text = 3;
    const auto poisoned = attended<T>(batch.prepare(), W, warps, what);
    for (const int t : {0, 1, 2, 4, 5, 6})
        check(equal(rows_of(batch, plain, t), rows_of(batch, poisoned, t)), "%s: NaN reaches another text", what.c_str());
    for (const T value : rows_of(batch, poisoned, 3))
        if (!std::isnan(wide(value))) return check(false, "%s: NaN is lost", what.c_str());
}

const vector<int> TEXTS{1, 5, 15, 16, 17, -9, 32, 33, 63, 64, 65, 127, -20, 128, 129, 200};
const vector<int> FEW{17, 1, -9, 65, 129};

vector<Batch> batches(int W) {
    const int spans[][2] = {{ALL, ALL}, {ALL, 0}, {3, 3}, {20, 0}, {70, 70}, {0, 5}};
    const vector<int> widths[] = {{8, 16, 24, 32}, {40, 64}, {72, 96, 128}, {200, 256}};
    const auto& own = widths[W == 32 ? 0 : W == 64 ? 1 : W == 128 ? 2 : 3];
    vector<Batch> result;
    for (int i = 0; i < 6; i++) {
        const int width = own[i % own.size()], query_heads = i == 0 ? 4 : i == 1 ? 3 : 2, key_heads = i == 0 ? 2 : 1;
        const float scale = i == 0 ? 1 / std::sqrt((float)width) : 0.11f;
        const auto& texts = W <= 64 && (i < 2 || i == 4) ? TEXTS : FEW;
        const int longest = i % 3 == 0 ? 0 : i % 3 == 1 ? *std::max_element(texts.begin(), texts.end()) : 333;
        result.push_back({width, query_heads, key_heads, texts, spans[i][0], spans[i][1], longest, scale});
    }
    return result;
}

template <class T> void test_attends(const vector<Batch>& all, int W) {
    const Warps longest = W == 64 || W == 256 ? Warps{8, 1} : Warps{4, 2};
    for (const Warps warps : {Warps{1, 1}, {2, 1}, {4, 1}, longest}) {
        if (sizeof(T) == 4 && warps.count > 1) break;
        for (const Batch& batch : all) test_attend<T>(batch, W, warps);
        test_bits<T>(all[4], W, warps);
    }
}

// -----------------------------------------------------------------------------------------------

template <class Test> void group(const char* name, const Test& test) {
    const int checks_before = checks, failures_before = failures;
    const clock_t start = clock();
    test();
    printf("%-12s %6d checks, %d failed, %.1f s\n", name, checks - checks_before, failures - failures_before,
           (double)(clock() - start) / CLOCKS_PER_SEC);
    fflush(stdout);
}

void test_numbers() {
    int wrong = 0;
    for (unsigned bits = 0; bits < 1 << 16; bits++) {
        const f16 half{(uint16_t)bits};
        const bf16 brain{(uint16_t)bits};
        _Float16 reference;
        memcpy(&reference, &bits, 2);
        const float value = wide(half), other = wide(brain);
        wrong += std::isnan(value) ? !std::isnan((float)reference) : value != (float)reference;
        wrong += !std::isnan(value) && narrow<f16>(value).bits != bits;
        wrong += !std::isnan(other) && narrow<bf16>(other).bits != bits;
    }
    check(wrong == 0, "%d 16-bit values are converted wrongly", wrong);
    check(narrow<bf16>(1 + 0x1p-8f).bits == 0x3f80 && narrow<bf16>(1 + 0x3p-8f).bits == 0x3f82 &&
              narrow<bf16>(1 + 0x1.01p-8f).bits == 0x3f81,
          "bf16 is not rounded to nearest, ties to even");
}

int main() {
    group("numbers", test_numbers);
#define GROUP(name, tests) group(name, [] { tests<float>(), tests<f16>(), tests<bf16>(); });
    GROUP("norm", test_norms)
    GROUP("activate", test_activates)
    GROUP("gather", test_gathers)
    GROUP("rotate", test_rotates)
    GROUP("pool", test_pools)
    for (const int W : {32, 64, 128, 256}) {
        auto all = batches(W);
        group(text("reference %d", W).c_str(), [&] { for (Batch& batch : all) batch.solve(); });
        group(text("attend_f32_%d", W).c_str(), [&] { test_attends<float>(all, W); });
        group(text("attend_f16_%d", W).c_str(), [&] { test_attends<f16>(all, W); });
        group(text("attend_bf16_%d", W).c_str(), [&] { test_attends<bf16>(all, W); });
    }
    printf("%d checks, %d failed\n", checks, failures);
    return failures ? 1 : 0;
}
