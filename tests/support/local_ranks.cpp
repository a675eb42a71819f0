#include "support/local_ranks.h"

#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "base/error.h"

namespace vitrine::test {
namespace {

/// The messages under way between all ranks.
struct Wire {
  struct Receive {
    std::span<std::byte> bytes;
    std::shared_ptr<Message> message;
  };
  struct Link {
    std::deque<std::vector<std::byte>> sent;
    std::deque<Receive> awaited;
  };

  std::mutex mutex;
  std::map<std::tuple<int, int, int>, Link> links;  // from, to, channel
  bool is_broken = false;
};

class LocalTransport : public Transport {
 public:
  LocalTransport(Wire& wire, int rank, int size) : wire_(wire), rank_(rank), size_(size) {}

  ~LocalTransport() override { drop(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(int to, int channel, std::span<const std::byte> bytes, std::shared_ptr<Message> message) override {
    const std::lock_guard lock(wire_.mutex);
    Wire::Link& link = wire_.links[{rank_, to, channel}];
    link.sent.emplace_back(bytes.begin(), bytes.end());
    message->is_done = true;
    deliver(link);
  }
  void receive(int from, int channel, std::span<std::byte> bytes, std::shared_ptr<Message> message) override {
    const std::lock_guard lock(wire_.mutex);
    Wire::Link& link = wire_.links[{from, rank_, channel}];
    link.awaited.push_back({bytes, std::move(message)});
    deliver(link);
  }
  bool poll() override {
    const std::lock_guard lock(wire_.mutex);
    if (wire_.is_broken) throw Error("test", "the run was ended");
    return false;
  }
  void finish() override { drop(); }
  void abort(int) override {
    const std::lock_guard lock(wire_.mutex);
    wire_.is_broken = true;
  }

 private:
  /// Forgets the receives of this rank, whose memory will be freed.
  void drop() {
    const std::lock_guard lock(wire_.mutex);
    for (auto& [ends, link] : wire_.links) {
      if (std::get<1>(ends) == rank_) link.awaited.clear();
    }
  }
  static void deliver(Wire::Link& link) {
    while (!link.sent.empty() && !link.awaited.empty()) {
      const std::vector<std::byte>& sent = link.sent.front();
      const Wire::Receive& receive = link.awaited.front();
      if (sent.size() != receive.bytes.size()) throw InternalError("test", "a message of another size");
      std::memcpy(receive.bytes.data(), sent.data(), sent.size());
      receive.message->is_done = true;
      link.sent.pop_front();
      link.awaited.pop_front();
    }
  }

  Wire& wire_;
  int rank_, size_;
};

}  // namespace

void run_local_ranks(int n, const std::function<void(Ranks&)>& work, double peer_timeout_s, int n_missing) {
  Wire wire;
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(n));
  std::vector<std::thread> threads;
  for (int r = 0; r < n - n_missing; ++r) {
    threads.emplace_back([&, r] {
      std::unique_ptr<Ranks> ranks;
      const auto fail = [&] { failures[static_cast<std::size_t>(r)] = std::current_exception(); };
      try {
        ranks = std::make_unique<Ranks>(std::make_unique<LocalTransport>(wire, r, n), peer_timeout_s);
        work(*ranks);
        ranks->finish();
      } catch (const Interrupted&) {
        fail();
        ranks->finish();
      } catch (...) {
        fail();
        if (ranks != nullptr && ranks->has_agreed_to_fail()) {
          ranks->finish();
        } else if (ranks != nullptr) {
          ranks->abort(1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace vitrine::test
