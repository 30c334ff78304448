// Drive multi-level queues with made-up tuples, and hold every row against the definition: a ring of
// the last values of each key. Options are name=value; what came of the run goes to standard output,
// a name and a number a line.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

uint64_t state = 1;

uint32_t draw() {  // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return static_cast<uint32_t>((state * 0x2545F4914F6CDD1DULL) >> 32);
}

std::string option(int argc, char** argv, const std::string& name, const std::string& otherwise) {
    for (int k = 1; k < argc; k++) {
        const std::string text = argv[k];
        if (text.compare(0, name.size() + 1, name + "=") == 0) return text.substr(name.size() + 1);
    }
    return otherwise;
}

struct Row {
    uint32_t key, count, sum, low, high, twice;
    uint64_t cycle;
};

struct Window {
    std::vector<uint16_t> ring;
    uint32_t seen = 0;
};

}  // namespace

int main(int argc, char** argv) {
    const auto number = [&](const char* name, uint64_t otherwise) {
        return std::stoull(option(argc, argv, name, std::to_string(otherwise)));
    };
    const uint32_t rows = number("rows", 64);
    const uint32_t slide = number("slide", 64);
    const uint32_t keys = number("keys", 64);
    const uint64_t measured = number("tuples", 100000);
    const bool warm = number("warm", 1);
    const uint64_t patience = number("patience", 100000);
    const std::string skew = option(argc, argv, "skew", "uniform");
    state = number("seed", 1) * 0x9E3779B97F4A7C15ULL + 1;

    // For the warm-up each key gets a whole window, and then a part of a slide, in random order.
    std::vector<uint32_t> first;
    if (warm) {
        for (uint32_t key = 0; key < (skew == "single" ? 1 : keys); key++) {
            first.insert(first.end(), rows + draw() % slide, key);
        }
        for (size_t k = first.size(); k > 1; k--) std::swap(first[k - 1], first[draw() % k]);
    }
    std::vector<double> heights;
    if (skew == "zipf") {
        double sum = 0;
        for (uint32_t key = 0; key < keys; key++) heights.push_back(sum += 1.0 / (key + 1));
    }
    const auto choose = [&](uint64_t at) -> uint32_t {
        if (skew == "single") return 0;
        if (skew == "turn") return at % keys;
        if (skew == "zipf") {
            const double place = draw() / 4294967296.0 * heights.back();
            return std::upper_bound(heights.begin(), heights.end(), place) - heights.begin();
        }
        return draw() % keys;
    };

    std::vector<Window> windows(keys);
    std::deque<Row> expected;
    std::vector<uint16_t> sorted;
    const auto enter = [&](uint32_t key, uint16_t value, uint64_t cycle) {
        Window& window = windows[key];
        if (window.ring.empty()) window.ring.resize(rows);
        window.ring[window.seen % rows] = value;
        window.seen++;
        if (window.seen < rows || (window.seen - rows) % slide) return;
        Row row{key, rows, 0, 0xFFFF, 0, 0, cycle};
        for (const uint16_t each : window.ring) {
            row.sum += each;
            row.low = std::min<uint32_t>(row.low, each);
            row.high = std::max<uint32_t>(row.high, each);
        }
#ifdef MEDIAN
        sorted = window.ring;
        std::nth_element(sorted.begin(), sorted.begin() + rows / 2, sorted.end());
        const uint16_t above = sorted[rows / 2];
        uint16_t below = above;
        if (rows % 2 == 0) below = *std::max_element(sorted.begin(), sorted.begin() + rows / 2);
        row.twice = above + below;
#endif
        expected.push_back(row);
    };

    const auto context = std::make_unique<VerilatedContext>();
    const auto top = std::make_unique<Vtop>(context.get());
    top->clk = 0;
    top->rst = 1;
    top->valid = 0;
    top->rows = rows;
    top->slide = slide;
    for (int k = 0; k < 8; k++) {
        top->clk ^= 1;
        top->eval();
    }
    top->rst = 0;

    const uint64_t total = first.size() + measured;
    uint64_t cycle = 0, taken = 0, quiet = 0, begun = 0, ended = 0, origin = 0;
    uint64_t found = 0, wrong = 0, evicted = 0, timed = 0;
    double latency = 0;
    bool done = false, offering = false;
    uint32_t key = 0;
    uint16_t value = 0;
    while (!done) {
        if (!offering && taken < total) {
            key = taken < first.size() ? first[taken] : choose(taken);
            value = draw() & 0xFFFF;
            offering = true;
        }
        top->valid = taken <= total;
        top->end = taken == total;
        top->key = key;
        top->value = value;
        top->eval();
        const bool move = top->valid && top->ready;
        if (move && taken == 0) origin = cycle;
        if (move && taken == first.size()) begun = cycle;
        if (move && taken < total) {
            enter(key, value, cycle);
            offering = false;
        }
        if (move && taken == total) ended = cycle;
        taken += move;
        evicted += top->evicted;
        if (top->o_valid && top->o_end) done = true;
        if (top->o_valid && !top->o_end) {
            found++;
            if (expected.empty()) {
                wrong++;
            } else {
                const Row& row = expected.front();
                wrong += row.key != top->o_key || row.count != top->o_count ||
                         row.sum != top->o_sum || row.low != top->o_low ||
                         row.high != top->o_high || row.twice != top->o_twice;
                if (begun) {
                    latency += cycle - row.cycle;
                    timed++;
                }
                expected.pop_front();
            }
        }
        quiet = move || top->o_valid ? 0 : quiet + 1;
        if (quiet > patience) {
            std::printf("stuck %llu\n", static_cast<unsigned long long>(taken));
            return 1;
        }
        top->clk = 1;
        top->eval();
        top->clk = 0;
        cycle++;
    }
    const auto print = [](const char* name, uint64_t number) {
        std::printf("%s %llu\n", name, static_cast<unsigned long long>(number));
    };
    print("tuples", measured);
    print("cycles", ended - begun);
    print("windows", found);
    print("wrong", wrong);
    print("missing", expected.size());
    print("evicted", evicted);
    print("all_tuples", total);
    print("all_cycles", cycle - origin);
    std::printf("latency %.3f\n", timed ? latency / timed : 0.0);
    return 0;
}
