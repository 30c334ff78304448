// A generated board in simulation: its UART on one side, a file descriptor on the other, which is
// the master of a pseudo-terminal. Runs until the other side of that is gone for good, or until
// standard input ends.
//
// Options: fd, cycles_per_bit, seed, and damage: out of 2^32, how often a byte is damaged on its
// way, in each direction. Damage is one of four: some bits flip, or the byte is lost, or comes twice,
// or another one comes before it.

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>

#include "Vboard.h"
#include "verilated.h"

namespace {

constexpr int kResetCycles = 4;
constexpr int kCyclesPerLook = 512;        // between two looks at the file descriptor
constexpr uint64_t kQuietCycles = 200000;  // after which the simulation slows down
constexpr int kQuietWait = 2;              // milliseconds between looks then

uint64_t number(const std::string& name) {
    const char* found = Verilated::commandArgsPlusMatch(name.c_str());
    const size_t skip = name.size() + 1;  // the plus sign
    if (std::strlen(found) <= skip) {
        std::fprintf(stderr, "option %s is missing\n", name.c_str());
        std::exit(2);
    }
    return std::strtoull(found + skip, nullptr, 10);
}

// Damages bytes, the same way for the same seed.
class Damage {
  public:
    Damage(uint64_t chance, uint64_t seed) : chance_(chance), state_(seed * 2 + 1) {}

    void pass(uint8_t byte, std::deque<uint8_t>& line) {
        if (next() >= chance_) {
            line.push_back(byte);
            return;
        }
        ++count_;
        const uint8_t other = next();
        switch (next() % 4) {
            case 0:
                line.push_back(byte ^ (other | 1));
                break;
            case 1:
                break;
            case 2:
                line.push_back(byte);
                line.push_back(byte);
                break;
            default:
                line.push_back(other);
                line.push_back(byte);
        }
    }

    unsigned long long count() const { return count_; }

  private:
    uint32_t next() {
        // splitmix64
        state_ += 0x9e3779b97f4a7c15u;
        uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return (z ^ (z >> 31)) >> 32;
    }

    const uint64_t chance_;
    uint64_t state_;
    uint64_t count_ = 0;
};

// Bytes to a wire.
class Sender {
  public:
    explicit Sender(int cycles_per_bit) : cycles_(cycles_per_bit) {}

    bool idle() const { return left_ == 0; }
    void send(uint8_t byte) {
        bits_ = 0x200u | byte << 1;  // start bit, data, stop bit
        left_ = 10 * cycles_;
    }
    bool wire() {
        if (left_ == 0) return true;
        const int bit = 9 - (left_ - 1) / cycles_;
        --left_;
        return bits_ >> bit & 1;
    }

  private:
    const int cycles_;
    int left_ = 0;
    uint32_t bits_ = 0;
};

// Bytes from a wire.
class Receiver {
  public:
    explicit Receiver(int cycles_per_bit) : cycles_(cycles_per_bit) {}

    // True when a byte has come whole; it is then in `byte`.
    bool sample(bool wire, uint8_t& byte) {
        if (wait_ == 0) {
            if (wire) return false;
            wait_ = cycles_ / 2;
            bit_ = 0;
        }
        if (--wait_ > 0) return false;
        if (bit_ == 0) {
            if (wire) return false;
        } else if (bit_ <= 8) {
            bits_ = bits_ >> 1 | wire << 7;
        } else {
            byte = bits_;
            return wire;
        }
        ++bit_;
        wait_ = cycles_;
        return false;
    }

  private:
    const int cycles_;
    int wait_ = 0;
    int bit_ = 0;
    uint8_t bits_ = 0;
};

class Board {
  public:
    Board()
        : fd_(number("fd=")),
          cycles_per_bit_(number("cycles_per_bit=")),
          sender_(cycles_per_bit_),
          receiver_(cycles_per_bit_),
          damage_in_(number("damage="), number("seed=")),
          damage_out_(number("damage="), ~number("seed=")) {}

    int run() {
        fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
        top_->rx = 1;
        top_->rst = 1;
        for (int cycle = 0; cycle < kResetCycles; ++cycle) tick();
        top_->rst = 0;
        while (look()) {
            for (int cycle = 0; cycle < kCyclesPerLook; ++cycle) step();
        }
        top_->final();
        std::printf("cycles %llu\nbytes_in %llu\nbytes_out %llu\n", ull(cycles_), ull(bytes_in_),
                    ull(bytes_out_));
        std::printf("damaged_in %llu\ndamaged_out %llu\n", damage_in_.count(),
                    damage_out_.count());
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

    void step() {
        if (sender_.idle() && !to_board_.empty()) {
            sender_.send(to_board_.front());
            to_board_.pop_front();
        }
        top_->rx = sender_.wire();
        top_->clk = 0;
        top_->eval();
        uint8_t byte = 0;
        if (receiver_.sample(top_->tx, byte)) {
            ++bytes_out_;
            damage_out_.pass(byte, to_host_);
        }
        quiet_ = top_->tx && sender_.idle() ? quiet_ + 1 : 0;
        top_->clk = 1;
        top_->eval();
        ++cycles_;
    }

    // Moves bytes from and to the file descriptor; false when it is time to stop.
    bool look() {
        const int wait = quiet_ > kQuietCycles && to_board_.empty() ? kQuietWait : 0;
        pollfd both[2] = {{fd_, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
        poll(both, 2, wait);
        if (both[1].revents) return false;
        // A pseudo-terminal that nobody has open reports that it is hung up.
        if (both[0].revents & POLLHUP) {
            to_host_.clear();
            if (wait) usleep(1000 * kQuietWait);
        }
        uint8_t bytes[256];
        // No more than the line carries in the meantime, so that the rest waits where the host
        // sees that it waits.
        if (both[0].revents & POLLIN && to_board_.size() < 16) {
            const ssize_t size = read(fd_, bytes, 64);
            for (ssize_t k = 0; k < size; ++k) damage_in_.pass(bytes[k], to_board_);
            if (size > 0) bytes_in_ += size;
        }
        size_t size = 0;
        while (size < sizeof(bytes) && size < to_host_.size()) {
            bytes[size] = to_host_[size];
            ++size;
        }
        if (size > 0) {
            const ssize_t written = write(fd_, bytes, size);
            if (written > 0) to_host_.erase(to_host_.begin(), to_host_.begin() + written);
        }
        return true;
    }

    const std::unique_ptr<Vboard> top_ = std::make_unique<Vboard>();
    const int fd_;
    const int cycles_per_bit_;
    Sender sender_;
    Receiver receiver_;
    Damage damage_in_;
    Damage damage_out_;
    std::deque<uint8_t> to_board_;
    std::deque<uint8_t> to_host_;
    uint64_t cycles_ = 0;
    uint64_t quiet_ = 0;
    uint64_t bytes_in_ = 0;
    uint64_t bytes_out_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    Verilated::commandArgs(argc, argv);
    return Board().run();
}
