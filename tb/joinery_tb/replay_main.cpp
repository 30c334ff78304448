// Replay a stimulus file through a generated top and write its results to a file, with nothing
// between the design and the files. IN_BYTES are the bytes of tdata on the way in; on the way out
// there are LANES lanes of OUT_BYTES each.
//
// Files are sequences of records of 32-bit little-endian words. A stimulus record is a control
// word (bit 0: tdata holds data, bit 1: tlast) and tdata; a result record is one lane of tdata. The
// log has one byte for each input transfer with data: 1 where the design refused it. The files
// `arrived` and `left` have one word for each input transfer and each result, its cycle. Messages go to
// standard output, one a line, a name and numbers; replay.py reads them. replay_tb.v does the same
// in Verilog, cycle for cycle.

#include <algorithm>
#include <array>
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

constexpr size_t kInWords = (IN_BYTES + 3) / 4;
constexpr size_t kOutWords = (OUT_BYTES + 3) / 4;
constexpr size_t kBeatBytes = LANES * OUT_BYTES;
constexpr uint32_t kData = 1;
constexpr uint32_t kLast = 2;
constexpr uint64_t kProgressEvery = 4096;
#ifdef MERGE_CLOCK
constexpr int kResetCycles = 64;  // for a few edges of a second clock that is slower
#else
constexpr int kResetCycles = 4;
#endif
constexpr int kQuietCycles = 64;
constexpr int kSettingCycles = 4096;  // a design may have to divide before settings apply
constexpr int kRegisterPatience = 1000;

// Verilator makes a port an integer or an array of 32-bit words, by its width. Both lie in memory
// as little-endian words, so one copy serves both.
template <typename Port>
void drive(Port& port, const uint32_t* words) {
    std::memcpy(&port, words, sizeof(port));
}

template <typename Port>
void sample(const Port& port, uint32_t* words) {
    std::memcpy(words, &port, sizeof(port));
}

// One bit for each of `bytes` bytes, in an array as long as the widest integer port at least.
template <size_t bytes>
struct Keep {
    static constexpr size_t kWords = std::max<size_t>(2, (bytes + 31) / 32);
    uint32_t words[kWords] = {};

    // The bits of bytes `from` to `to - 1`.
    static Keep range(size_t from, size_t to) {
        Keep keep;
        for (size_t byte = from; byte < to; ++byte) keep.words[byte / 32] |= 1u << (byte % 32);
        return keep;
    }
    static Keep all() { return range(0, bytes); }

    bool operator==(const Keep& other) const {
        return std::memcmp(words, other.words, sizeof(words)) == 0;
    }
    Keep operator&(const Keep& other) const {
        Keep both;
        for (size_t word = 0; word < kWords; ++word) {
            both.words[word] = words[word] & other.words[word];
        }
        return both;
    }
};

using BeatKeep = Keep<kBeatBytes>;

// The bits of every lane.
std::array<BeatKeep, LANES> lane_keeps() {
    std::array<BeatKeep, LANES> keeps;
    for (size_t lane = 0; lane < LANES; ++lane) {
        keeps[lane] = BeatKeep::range(lane * OUT_BYTES, (lane + 1) * OUT_BYTES);
    }
    return keeps;
}

std::string option(const std::string& name) {
    const char* found = Verilated::commandArgsPlusMatch(name.c_str());
    const size_t skip = name.size() + 1;  // the plus sign
    if (std::strlen(found) <= skip) {
        std::printf("error option %s\n", name.c_str());
        std::exit(2);
    }
    return found + skip;
}

uint64_t number(const std::string& name, int base = 10) {
    return std::strtoull(option(name).c_str(), nullptr, base);
}

FILE* open_file(const std::string& path, const char* mode) {
    FILE* file = std::fopen(path.c_str(), mode);
    if (file == nullptr) {
        std::printf("error file %s\n", path.c_str());
        std::exit(2);
    }
    std::setvbuf(file, nullptr, _IOFBF, 1 << 20);
    return file;
}

// Says for each cycle whether one side of a stream pauses.
class Pauses {
  public:
    Pauses(const std::string& side, uint32_t salt)
        : chance_(number("chance_" + side + "=")),
          mask_(number("mask_" + side + "=", 16)),
          period_(number("period_" + side + "=")),
          // An odd state is never zero, which xorshift could not leave.
          state_((static_cast<uint32_t>(number("seed=")) ^ salt) | 1) {}

    bool next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 17;
        state_ ^= state_ << 5;
        const bool planned = (mask_ >> phase_) & 1;
        phase_ = phase_ + 1 == period_ ? 0 : phase_ + 1;
        return planned || (state_ >> 24) < chance_;
    }

  private:
    const uint64_t chance_;
    const uint64_t mask_;
    const uint64_t period_;
    uint32_t state_;
    uint64_t phase_ = 0;
};

class Stimulus {
  public:
    explicit Stimulus(FILE* file) : file_(file) {}

    // Moves on to the next record; false after the last one.
    bool next() { return std::fread(record_, sizeof(record_), 1, file_) == 1; }
    bool data() const { return record_[0] & kData; }
    bool last() const { return record_[0] & kLast; }
    const uint32_t* words() const { return record_ + 1; }

  private:
    FILE* file_;
    uint32_t record_[1 + kInWords] = {};
};

class Replay {
  public:
    Replay()
        : stimulus_(open_file(option("stimulus="), "rb")),
          results_(open_file(option("results="), "wb")),
          log_(open_file(option("log="), "wb")),
          arrived_(open_file(option("arrived="), "wb")),
          left_(open_file(option("left="), "wb")),
          patience_(number("patience=")),
          pauses_in_("in", 0),
          pauses_out_("out", 0x9e3779b8u) {}

    // Returns true when all went well; otherwise the reason has been printed.
    bool run() {
        reset();
        if (!write_registers() || !feed() || !stay_quiet() || !read_registers()) return false;
        top_->final();
        bool written = true;
        for (FILE* file : {results_, log_, arrived_, left_}) written &= std::fclose(file) == 0;
        if (!written) return fail("write");
        std::printf("cycles %llu\nbeats %llu\nresults %llu\nstalls_in %llu\nstalls_out %llu\n",
                    ull(cycles_), ull(beats_), ull(rows_), ull(stalls_in_), ull(stalls_out_));
        std::printf("sent %llu\ndecided %llu\nrefused %llu\n", ull(sent_), ull(decided_),
                    ull(refused_));
        return true;
    }

  private:
    static unsigned long long ull(uint64_t value) { return value; }

    static bool fail(const char* reason) {
        std::printf("error %s\n", reason);
        return false;
    }

    // Lets inputs reach the outputs that depend on them in the same cycle.
    void settle() {
        top_->clk = 0;
        top_->eval();
    }

    void tick() {
        top_->clk = 1;
        top_->eval();
#ifdef MERGE_CLOCK
        // The second clock: merge_up edges in merge_down cycles, never at the same time as the first.
        for (merge_phase_ += merge_up_; merge_phase_ >= merge_down_; merge_phase_ -= merge_down_) {
            top_->merge_clk = 1;
            top_->eval();
            top_->merge_clk = 0;
            top_->eval();
        }
#endif
    }

    void hold_reset(bool on) {
        top_->rst = on;
#ifdef MERGE_CLOCK
        top_->merge_rst = on;
#endif
    }

    void reset() {
        hold_reset(true);
        for (int cycle = 0; cycle < kResetCycles; ++cycle) {
            settle();
            tick();
        }
        hold_reset(false);
    }

    void offer() {
        const Keep<IN_BYTES> keep = stimulus_.data() ? Keep<IN_BYTES>::all() : Keep<IN_BYTES>();
        drive(top_->s_axis_tdata, stimulus_.words());
        drive(top_->s_axis_tkeep, keep.words);
        top_->s_axis_tlast = stimulus_.last();
        top_->s_axis_tvalid = 1;
    }

    // Takes one transfer of the output; false when it breaks the contract.
    bool take() {
        static const auto lanes = lane_keeps();
        BeatKeep keep;
        sample(top_->m_axis_tkeep, keep.words);
        // The end carries no row, and every other transfer at least one.
        if ((keep == BeatKeep()) != bool(top_->m_axis_tlast)) return fail("keep");
        if (top_->m_axis_tlast) return ++ends_out_ <= ends_in_ || fail("extra");
        uint32_t beat[(kBeatBytes + 3) / 4 + 1];
        sample(top_->m_axis_tdata, beat);
        for (size_t lane = 0; lane < LANES; ++lane) {
            const BeatKeep part = keep & lanes[lane];
            if (part == BeatKeep()) continue;
            if (!(part == lanes[lane])) return fail("keep");
            if (!write_row(reinterpret_cast<const char*>(beat) + lane * OUT_BYTES)) return false;
        }
        return true;
    }

    bool write_row(const char* bytes) {
        uint32_t words[kOutWords] = {};
        std::memcpy(words, bytes, OUT_BYTES);
        ++rows_;
        return (std::fwrite(words, 4, kOutWords, results_) == kOutWords && note_cycle(left_)) ||
               fail("write");
    }

    // Logs what the design decided in this cycle about its next input transfer with data.
    bool note_decision() {
        ++decided_;
        refused_ += top_->log_refused;
        return std::fputc(top_->log_refused, log_) != EOF || fail("write");
    }

    bool note_cycle(FILE* file) {
        const uint32_t cycle = static_cast<uint32_t>(cycles_);
        return std::fwrite(&cycle, sizeof(cycle), 1, file) == 1;
    }

    bool count_input() {
        ++beats_;
        sent_ += stimulus_.data();
        ends_in_ += stimulus_.last();
        if (beats_ % kProgressEvery == 0) {
            std::printf("progress %llu\n", ull(beats_));
            std::fflush(stdout);
        }
        return note_cycle(arrived_) || fail("write");
    }

    bool feed() {
        bool more = stimulus_.next();
        bool started = false;
        uint64_t waited = 0;
        while (more || ends_out_ < ends_in_) {
            const bool pause_in = pauses_in_.next();
            const bool pause_out = pauses_out_.next();
            // What was offered stays until it is taken.
            if (!top_->s_axis_tvalid && more && !pause_in) offer();
            top_->m_axis_tready = !pause_out;
            settle();
            started |= top_->s_axis_tvalid;
            cycles_ += started;
            const bool taken_in = top_->s_axis_tvalid && top_->s_axis_tready;
            const bool taken_out = top_->m_axis_tvalid && top_->m_axis_tready;
            stalls_in_ += top_->s_axis_tvalid && !top_->s_axis_tready;
            stalls_out_ += top_->m_axis_tvalid && !top_->m_axis_tready;
            if (taken_in && !count_input()) return false;
            if (taken_out && !take()) return false;
            if (top_->log_valid && !note_decision()) return false;
            waited = taken_in || taken_out ? 0 : waited + 1;
            if (waited > patience_) return stuck();
            tick();
            if (taken_in) {
                top_->s_axis_tvalid = 0;
                more = stimulus_.next();
            }
        }
        return true;
    }

    bool stuck() {
        std::printf("stuck %llu %llu %llu %d %d\n", ull(cycles_), ull(beats_), ull(rows_),
                    top_->s_axis_tready, top_->m_axis_tvalid);
        return false;
    }

    // Nothing may come after the last end.
    bool stay_quiet() {
        top_->m_axis_tready = 1;
        for (int cycle = 0; cycle < kQuietCycles; ++cycle) {
            settle();
            if (top_->m_axis_tvalid) return fail("extra");
            if (top_->log_valid && !note_decision()) return false;
            tick();
        }
        return true;
    }

    // Writes settings before anything else, and lets them take effect.
    bool write_registers() {
        FILE* list = open_file(option("writes="), "r");
        unsigned address = 0;
        unsigned value = 0;
        bool good = true;
        bool any = false;
        while (good && std::fscanf(list, "%x %x", &address, &value) == 2) {
            good = write_register(address, value);
            any = true;
        }
        std::fclose(list);
        for (int cycle = 0; any && cycle < kSettingCycles; ++cycle) {
            settle();
            tick();
        }
        return good;
    }

    bool write_register(unsigned address, unsigned value) {
        top_->s_axil_awaddr = address;
        top_->s_axil_awvalid = 1;
        top_->s_axil_wdata = value;
        top_->s_axil_wstrb = 0xf;
        top_->s_axil_wvalid = 1;
        top_->s_axil_bready = 1;
        for (int cycle = 0; cycle < kRegisterPatience; ++cycle) {
            settle();
            const bool placed = top_->s_axil_awvalid && top_->s_axil_awready;
            const bool given = top_->s_axil_wvalid && top_->s_axil_wready;
            const bool answered = top_->s_axil_bvalid;
            const bool refused = answered && top_->s_axil_bresp;
            tick();
            if (placed) top_->s_axil_awvalid = 0;
            if (given) top_->s_axil_wvalid = 0;
            if (answered) return !refused || fail("setting");
        }
        return fail("register");
    }

    bool read_registers() {
        FILE* list = open_file(option("registers="), "r");
        unsigned address = 0;
        bool good = true;
        while (good && std::fscanf(list, "%x", &address) == 1) good = read_register(address);
        std::fclose(list);
        return good;
    }

    bool read_register(unsigned address) {
        top_->s_axil_araddr = address;
        top_->s_axil_arvalid = 1;
        top_->s_axil_rready = 1;
        for (int cycle = 0; cycle < kRegisterPatience; ++cycle) {
            settle();
            const bool asked = top_->s_axil_arvalid && top_->s_axil_arready;
            const bool answered = top_->s_axil_rvalid;
            if (answered) {
                std::printf("register %u %u %u\n", address, unsigned(top_->s_axil_rdata),
                            unsigned(top_->s_axil_rresp));
            }
            tick();
            if (asked) top_->s_axil_arvalid = 0;
            if (answered) return true;
        }
        return fail("register");
    }

    const std::unique_ptr<Vtop> top_ = std::make_unique<Vtop>();
    Stimulus stimulus_;
    FILE* results_;
    FILE* log_;
    FILE* arrived_;
    FILE* left_;
    const uint64_t patience_;
    Pauses pauses_in_;
    Pauses pauses_out_;
#ifdef MERGE_CLOCK
    const uint64_t merge_up_ = number("merge_up=");
    const uint64_t merge_down_ = number("merge_down=");
    uint64_t merge_phase_ = 0;
#endif
    uint64_t cycles_ = 0;
    uint64_t beats_ = 0;
    uint64_t rows_ = 0;
    uint64_t sent_ = 0;
    uint64_t decided_ = 0;
    uint64_t refused_ = 0;
    uint64_t stalls_in_ = 0;
    uint64_t stalls_out_ = 0;
    uint64_t ends_in_ = 0;
    uint64_t ends_out_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    Verilated::commandArgs(argc, argv);
    return Replay().run() ? 0 : 1;
}
