// Run a join pipeline from files: transfers of both inputs in, pairs of ids out.
//
// Files are sequences of little-endian 32-bit words. `stream` holds the payloads of all transfers,
// `window` those of one window with its end, which is sent again for every batch; each payload is
// padded to whole words. A result is two words, the ids of the stream and of the window tuple, and
// two words of ones follow the results of a batch. What is printed is a name and a number a line.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

namespace {

using Words = std::vector<uint32_t>;

std::string option(const std::string& name) {
    const char* found = Verilated::commandArgsPlusMatch(name.c_str());
    if (std::strlen(found) <= name.size() + 1) {
        std::printf("error option %s\n", name.c_str());
        std::exit(2);
    }
    return found + name.size() + 1;
}

uint64_t number(const std::string& name) { return std::strtoull(option(name).c_str(), nullptr, 10); }

Words read_words(const std::string& path) {
    FILE* file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) {
        std::printf("error file %s\n", path.c_str());
        std::exit(2);
    }
    std::fseek(file, 0, SEEK_END);
    Words words(std::ftell(file) / 4);
    std::rewind(file);
    const bool whole = std::fread(words.data(), 4, words.size(), file) == words.size();
    std::fclose(file);
    if (!whole) std::exit(2);
    return words;
}

// Says for each cycle whether one side of a stream pauses.
class Pauses {
  public:
    Pauses(const std::string& side, uint32_t salt)
        : chance_(number("chance_" + side + "=")),
          state_((static_cast<uint32_t>(number("seed=")) ^ salt) | 1) {}

    bool next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 17;
        state_ ^= state_ << 5;
        return (state_ >> 24) < chance_;
    }

  private:
    const uint64_t chance_;
    uint32_t state_;
};

// The transfers of one input; those of a window begin again for every batch.
class Source {
  public:
    Source(const std::string& side, size_t words, uint64_t times, uint32_t salt)
        : transfers_(read_words(option(side + "="))),
          words_(words),
          total_(transfers_.size() / words * times),
          pauses_(side, salt) {}

    bool more() const { return sent_ < total_; }
    uint64_t sent() const { return sent_; }

    // Offers a transfer unless it pauses; what was offered stays until it is taken.
    template <typename Port>
    void offer(uint8_t& valid, Port& payload) {
        const bool pause = pauses_.next();
        if (valid || !more() || pause) return;
        const size_t at = sent_ % (transfers_.size() / words_) * words_;
        std::memcpy(&payload, transfers_.data() + at, sizeof(payload));
        valid = 1;
    }
    void taken(uint8_t& valid) {
        valid = 0;
        ++sent_;
    }

  private:
    const Words transfers_;
    const size_t words_;
    const uint64_t total_;
    uint64_t sent_ = 0;
    Pauses pauses_;
};

template <typename Port>
uint64_t bits(const Port& port, size_t offset, size_t count) {
    uint64_t value = 0;
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(&port);
    for (size_t bit = 0; bit < count; ++bit) {
        value |= uint64_t(bytes[(offset + bit) / 8] >> ((offset + bit) % 8) & 1) << bit;
    }
    return value;
}

class Run {
  public:
    Run() : batches_(number("batches=")) {
        results_ = std::fopen(option("results=").c_str(), "wb");
        std::setvbuf(results_, nullptr, _IOFBF, 1 << 20);
        top_->time_range = number("time_range=");
        top_->rst = 1;
        for (int cycle = 0; cycle < 4; ++cycle) tick();
        top_->rst = 0;
    }

    int run() {
        Source stream("stream", STREAM_WORDS, 1, 1);
        Source window("window", WINDOW_WORDS, batches_, 0x9e3779b8u);
        Pauses pauses("out", 0x3c6ef372u);
        const uint64_t patience = number("patience=");
        uint64_t waited = 0;
        while (ends_ < batches_) {
            stream.offer(top_->i_stream___05Fvalid, top_->i_stream___05Fpayload);
            window.offer(top_->i_window___05Fvalid, top_->i_window___05Fpayload);
            top_->o___05Fready = !pauses.next();
            top_->clk = 0;
            top_->eval();
            const bool in = top_->i_stream___05Fvalid && top_->i_stream___05Fready;
            const bool passes = top_->i_window___05Fvalid && top_->i_window___05Fready;
            const bool out = top_->o___05Fvalid && top_->o___05Fready;
            wrong_order_ += top_->wrong_order;
            out_of_range_ += top_->out_of_range;
            ++cycles_;
            if (out && !take()) return 1;
            waited = in || passes || out || top_->wrong_order || top_->out_of_range ? 0 : waited + 1;
            if (waited > patience) {
                std::printf("error stuck %llu\n", ull(cycles_));
                return 1;
            }
            tick();
            if (in) stream.taken(top_->i_stream___05Fvalid);
            if (passes) window.taken(top_->i_window___05Fvalid);
        }
        top_->final();
        if (std::fclose(results_) != 0) return 1;
        std::printf("cycles %llu\nwindow %llu\nresults %llu\nwrong_order %llu\nout_of_range %llu\n",
                    ull(cycles_), ull(window.sent() - batches_), ull(rows_), ull(wrong_order_),
                    ull(out_of_range_));
        return 0;
    }

  private:
    static unsigned long long ull(uint64_t value) { return value; }

    void tick() {
        top_->clk = 0;
        top_->eval();
        top_->clk = 1;
        top_->eval();
    }

    bool write(uint32_t stream, uint32_t window) {
        const uint32_t row[] = {stream, window};
        return std::fwrite(row, sizeof(row), 1, results_) == 1;
    }

    // Takes one transfer of the output; false when it breaks the contract.
    bool take() {
        const auto& payload = top_->o___05Fpayload;
        const bool end = bits(payload, 0, 1);
        uint64_t matches = 0;
        for (size_t lane = 0; lane < LANES; ++lane) {
            const size_t at = 1 + lane * (1 + 2 * ID_BITS);
            if (!end && bits(payload, at, 1)) {
                ++matches;
                if (!write(bits(payload, at + 1, ID_BITS), bits(payload, at + 1 + ID_BITS, ID_BITS)))
                    return false;
            }
        }
        rows_ += matches;
        ends_ += end;
        if (end == bool(matches)) {
            std::printf("error transfer %llu\n", ull(cycles_));
            return false;
        }
        return !end || write(~0u, ~0u);
    }

    const std::unique_ptr<Vtop> top_ = std::make_unique<Vtop>();
    const uint64_t batches_;
    FILE* results_;
    uint64_t cycles_ = 0;
    uint64_t rows_ = 0;
    uint64_t ends_ = 0;
    uint64_t wrong_order_ = 0;
    uint64_t out_of_range_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    Verilated::commandArgs(argc, argv);
    return Run().run();
}
