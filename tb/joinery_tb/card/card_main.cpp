// A card as generated Verilog, with AXI4 memory, served over standard input and output.
//
// A request is a letter and little-endian numbers of 64 bits; every answer begins with one byte: 0,
// or 1 and a text when the design broke a rule of AXI, after which the card is of no use.
//
//   W address count bytes     write memory                -
//   R address count           read memory                 bytes
//   w register value          write a register            response
//   r register                read a register             value, response
//   g cycles                  work until a pipeline stops, cycles at most
//   c                         the clock                   cycles
//   m                         bytes that went over the buses: read, written
//   q                         leave
//
// A memory answers in order, LATENCY cycles or more after it was asked. On each channel it pauses
// at random, as the options chance_ar, chance_r, chance_aw, chance_w and chance_b say. With fault_r or
// fault_b, that answer of each memory, counted from 1, is an error.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

namespace {

constexpr uint64_t kPage = 4096;
constexpr int kRegisterPatience = 1000;
constexpr unsigned kSlaveError = 2;

uint64_t number(const std::string& name) {
    const char* found = Verilated::commandArgsPlusMatch((name + "=").c_str());
    if (std::strlen(found) <= name.size() + 2) std::exit(2);
    return std::strtoull(found + name.size() + 2, nullptr, 10);
}

// Says for each cycle whether a channel pauses.
class Pauses {
  public:
    Pauses(const std::string& channel, uint32_t salt)
        : chance_(number("chance_" + channel)),
          state_((static_cast<uint32_t>(number("seed")) * 2654435761u ^ salt) | 1) {}

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

void require(bool good, const std::string& what) {
    if (!good) throw std::runtime_error(what);
}

using Bytes = std::vector<uint8_t>;

// The signals of one master, which Verilator has as members with names of their own.
template <int number>
struct Bus;

#define BUS(K)                                          \
    template <>                                         \
    struct Bus<K> {                                     \
        Vtop& top;                                      \
        auto& awaddr() { return top.m_axi_##K##_awaddr; }   \
        auto& awlen() { return top.m_axi_##K##_awlen; }     \
        auto& awsize() { return top.m_axi_##K##_awsize; }   \
        auto& awburst() { return top.m_axi_##K##_awburst; } \
        auto& awvalid() { return top.m_axi_##K##_awvalid; } \
        auto& awready() { return top.m_axi_##K##_awready; } \
        auto& wdata() { return top.m_axi_##K##_wdata; }     \
        auto& wstrb() { return top.m_axi_##K##_wstrb; }     \
        auto& wlast() { return top.m_axi_##K##_wlast; }     \
        auto& wvalid() { return top.m_axi_##K##_wvalid; }   \
        auto& wready() { return top.m_axi_##K##_wready; }   \
        auto& bresp() { return top.m_axi_##K##_bresp; }     \
        auto& bvalid() { return top.m_axi_##K##_bvalid; }   \
        auto& bready() { return top.m_axi_##K##_bready; }   \
        auto& arid() { return top.m_axi_##K##_arid; }       \
        auto& araddr() { return top.m_axi_##K##_araddr; }   \
        auto& arlen() { return top.m_axi_##K##_arlen; }     \
        auto& arsize() { return top.m_axi_##K##_arsize; }   \
        auto& arburst() { return top.m_axi_##K##_arburst; } \
        auto& arvalid() { return top.m_axi_##K##_arvalid; } \
        auto& arready() { return top.m_axi_##K##_arready; } \
        auto& rid() { return top.m_axi_##K##_rid; }         \
        auto& rdata() { return top.m_axi_##K##_rdata; }     \
        auto& rresp() { return top.m_axi_##K##_rresp; }     \
        auto& rlast() { return top.m_axi_##K##_rlast; }     \
        auto& rvalid() { return top.m_axi_##K##_rvalid; }   \
        auto& rready() { return top.m_axi_##K##_rready; }   \
    };

BUS(0)
#if PIPELINES > 1
BUS(1)
#endif
#if PIPELINES > 2
BUS(2)
#endif
#if PIPELINES > 3
BUS(3)
#endif
#if PIPELINES > 4
BUS(4)
#endif
#if PIPELINES > 5
BUS(5)
#endif
#if PIPELINES > 6
BUS(6)
#endif
#if PIPELINES > 7
BUS(7)
#endif
#if PIPELINES > 8
#error "the harness has buses for eight pipelines"
#endif

class Slave {
  public:
    virtual ~Slave() = default;
    virtual void drive() = 0;             // sets what the design sees, before it settles
    virtual void sample(uint64_t now) = 0;  // takes what moves in this cycle, before the edge
    virtual void offer(uint64_t now) = 0;   // changes what is seen from then on, after the edge
    uint64_t read = 0;
    uint64_t written = 0;
};

struct Burst {
    uint64_t address;
    uint64_t beats;
    uint64_t ready;  // the cycle of the first answer
    uint8_t id;
};

// The law of a stream as the design keeps it: what was offered stays until it is taken.
class Held {
  public:
    void look(const char* channel, bool valid, bool ready, uint64_t payload) {
        require(!waits_ || (valid && payload == payload_), std::string(channel) + " did not hold");
        waits_ = valid && !ready;
        payload_ = payload;
    }

  private:
    bool waits_ = false;
    uint64_t payload_ = 0;
};

template <int K>
class Memory : public Slave {
  public:
    Memory(Vtop& top, Bytes& bytes)
        : bus_{top},
          bytes_(bytes),
          latency_(number("latency")),
          fault_r_(number("fault_r")),
          fault_b_(number("fault_b")),
          pause_ar_("ar", 0x1000 + K),
          pause_r_("r", 0x2000 + K),
          pause_aw_("aw", 0x3000 + K),
          pause_w_("w", 0x4000 + K),
          pause_b_("b", 0x5000 + K) {}

    void drive() override {
        bus_.arready() = !pause_ar_.next();
        bus_.awready() = !pause_aw_.next();
        bus_.wready() = !pause_w_.next() && !writes_.empty();
    }

    void sample(uint64_t now) override {
        const uint64_t ar = uint64_t(bus_.araddr()) << 9 | bus_.arlen() << 1 | bus_.arid();
        held_ar_.look("AR", bus_.arvalid(), bus_.arready(), ar);
        held_aw_.look("AW", bus_.awvalid(), bus_.awready(), uint64_t(bus_.awaddr()) << 8 | bus_.awlen());
        held_w_.look("W", bus_.wvalid(), bus_.wready(), hash());
        read_taken_ = bus_.rvalid() && bus_.rready();
        answer_taken_ = bus_.bvalid() && bus_.bready();
        read += read_taken_ ? WORD_BYTES : 0;
        if (bus_.arvalid() && bus_.arready()) {
            reads_.push_back({check(bus_.araddr(), bus_.arlen(), bus_.arsize(), bus_.arburst()),
                              bus_.arlen() + 1u, now + latency_, uint8_t(bus_.arid())});
        }
        if (bus_.wvalid() && bus_.wready()) take_word(now);
        if (bus_.awvalid() && bus_.awready()) {
            writes_.push_back({check(bus_.awaddr(), bus_.awlen(), bus_.awsize(), bus_.awburst()),
                               bus_.awlen() + 1u, 0, 0});
        }
    }

    void offer(uint64_t now) override {
        if (read_taken_) bus_.rvalid() = 0;
        if (answer_taken_) bus_.bvalid() = 0;
        if (!bus_.rvalid() && !reads_.empty() && now >= reads_.front().ready && !pause_r_.next()) {
            Burst& burst = reads_.front();
            std::memcpy(&bus_.rdata(), bytes_.data() + burst.address, WORD_BYTES);
            burst.address += WORD_BYTES;
            bus_.rid() = burst.id;
            bus_.rresp() = ++answers_r_ == fault_r_ ? kSlaveError : 0;
            bus_.rlast() = --burst.beats == 0;
            bus_.rvalid() = 1;
            if (burst.beats == 0) reads_.pop_front();
        }
        if (!bus_.bvalid() && !answers_.empty() && now >= answers_.front() && !pause_b_.next()) {
            bus_.bvalid() = 1;
            bus_.bresp() = ++answers_b_ == fault_b_ ? kSlaveError : 0;
            answers_.pop_front();
        }
    }

  private:
    uint64_t hash() {
        uint64_t value = bus_.wlast() ^ uint64_t(bus_.wstrb()) * 0x9e3779b97f4a7c15ull;
        const uint8_t* data = reinterpret_cast<const uint8_t*>(&bus_.wdata());
        for (int byte = 0; byte < WORD_BYTES; ++byte) value = value * 1099511628211ull ^ data[byte];
        return value;
    }

    uint64_t check(uint64_t address, uint64_t last, unsigned size, unsigned burst) {
        const uint64_t bytes = (last + 1) * WORD_BYTES;
        require(1u << size == WORD_BYTES && burst == 1, "a burst is not of whole words");
        require(address % WORD_BYTES == 0, "a burst is not aligned");
        require(address / kPage == (address + bytes - 1) / kPage, "a burst crosses a page");
        require(address + bytes <= bytes_.size(), "a burst is outside the memory");
        return address;
    }

    void take_word(uint64_t now) {
        Burst& burst = writes_.front();
        const uint8_t* data = reinterpret_cast<const uint8_t*>(&bus_.wdata());
        const uint64_t strobe = uint64_t(bus_.wstrb());
        for (int byte = 0; byte < WORD_BYTES; ++byte) {
            if (strobe >> byte & 1) bytes_[burst.address + byte] = data[byte];
        }
        burst.address += WORD_BYTES;
        written += WORD_BYTES;
        require((--burst.beats == 0) == bool(bus_.wlast()), "wlast is not on the last word");
        if (burst.beats == 0) {
            writes_.pop_front();
            answers_.push_back(now + latency_);
        }
    }

    Bus<K> bus_;
    Bytes& bytes_;
    const uint64_t latency_, fault_r_, fault_b_;
    uint64_t answers_r_ = 0, answers_b_ = 0;
    Pauses pause_ar_, pause_r_, pause_aw_, pause_w_, pause_b_;
    Held held_ar_, held_aw_, held_w_;
    bool read_taken_ = false, answer_taken_ = false;
    std::deque<Burst> reads_, writes_;
    std::deque<uint64_t> answers_;
};

class Card {
  public:
    Card() : bytes_(number("memory")) {
        add<0>();
        top_->rst = 1;
        for (int cycle = 0; cycle < 4; ++cycle) step();
        top_->rst = 0;
    }

    void serve() {
        for (int letter = std::getchar(); letter != EOF && letter != 'q'; letter = std::getchar()) {
            answer_.assign(1, 0);
            try {
                answer(char(letter));
            } catch (const std::runtime_error& error) {
                const std::string text = error.what();
                answer_.assign(1, 1);
                put(text.size());
                answer_.insert(answer_.end(), text.begin(), text.end());
            }
            std::fwrite(answer_.data(), 1, answer_.size(), stdout);
            std::fflush(stdout);
        }
        top_->final();
    }

  private:
    template <int K>
    void add() {
        slaves_.push_back(std::make_unique<Memory<K>>(*top_, bytes_));
        if constexpr (K + 1 < PIPELINES) add<K + 1>();
    }

    uint64_t get() {
        uint64_t value = 0;
        if (std::fread(&value, sizeof(value), 1, stdin) != 1) std::exit(1);
        return value;
    }

    void put(uint64_t value) {
        const uint8_t* bytes = reinterpret_cast<const uint8_t*>(&value);
        answer_.insert(answer_.end(), bytes, bytes + sizeof(value));
    }

    void answer(char letter) {
        if (letter == 'W' || letter == 'R') {
            const uint64_t address = get(), count = get();
            require(address + count <= bytes_.size(), "outside the memory");
            uint8_t* place = bytes_.data() + address;
            if (letter == 'R') {
                answer_.insert(answer_.end(), place, place + count);
            } else if (std::fread(place, 1, count, stdin) != count) {
                std::exit(1);
            }
        } else if (letter == 'w') {
            const uint64_t address = get(), value = get();
            put(write_register(address, value));
        } else if (letter == 'r') {
            read_register(get());
        } else if (letter == 'g') {
            const uint64_t most = get();
            const unsigned before = top_->running;
            for (uint64_t k = 0; k < most && top_->running == before; ++k) step();
        } else if (letter == 'c') {
            put(cycles_);
        } else if (letter == 'm') {
            uint64_t read = 0, written = 0;
            for (auto& slave : slaves_) {
                read += slave->read;
                written += slave->written;
            }
            put(read);
            put(written);
        } else {
            throw std::runtime_error(std::string("there is no request ") + letter);
        }
    }

    void settle() {
        for (auto& slave : slaves_) slave->drive();
        top_->clk = 0;
        top_->eval();
    }

    // One cycle; `settle` has come before.
    void edge() {
        for (auto& slave : slaves_) slave->sample(cycles_);
        top_->clk = 1;
        top_->eval();
        ++cycles_;
        for (auto& slave : slaves_) slave->offer(cycles_);
    }

    void step() {
        settle();
        edge();
    }

    uint64_t write_register(uint64_t address, uint64_t value) {
        top_->s_axil_awaddr = address;
        top_->s_axil_awvalid = 1;
        top_->s_axil_wdata = value;
        top_->s_axil_wstrb = 0xf;
        top_->s_axil_wvalid = 1;
        top_->s_axil_bready = 1;
        for (int cycle = 0; cycle < kRegisterPatience; ++cycle) {
            settle();
            const bool taken = top_->s_axil_awvalid && top_->s_axil_awready;
            const bool answered = top_->s_axil_bvalid;
            const uint64_t response = top_->s_axil_bresp;
            edge();
            if (taken) top_->s_axil_awvalid = top_->s_axil_wvalid = 0;
            if (answered) return response;
        }
        throw std::runtime_error("a register was not written");
    }

    void read_register(uint64_t address) {
        top_->s_axil_araddr = address;
        top_->s_axil_arvalid = 1;
        top_->s_axil_rready = 1;
        for (int cycle = 0; cycle < kRegisterPatience; ++cycle) {
            settle();
            const bool taken = top_->s_axil_arvalid && top_->s_axil_arready;
            const bool answered = top_->s_axil_rvalid;
            const uint64_t value = top_->s_axil_rdata, response = top_->s_axil_rresp;
            edge();
            if (taken) top_->s_axil_arvalid = 0;
            if (answered) {
                put(value);
                put(response);
                return;
            }
        }
        throw std::runtime_error("a register was not read");
    }

    const std::unique_ptr<Vtop> top_ = std::make_unique<Vtop>();
    Bytes bytes_;
    std::vector<std::unique_ptr<Slave>> slaves_;
    Bytes answer_;
    uint64_t cycles_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    Verilated::commandArgs(argc, argv);
    Card().serve();
    return 0;
}
