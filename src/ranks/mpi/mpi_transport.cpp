// Transport over MPI. This is the only file that includes mpi.h.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ranks/mpi/library.h"

namespace vitrine {
namespace {

// Over TCP, Open MPI sends a message of more than 64 KiB only after its receiver has agreed. The agreement follows the
// bytes that travel in the same direction, so two ranks that exchange large messages take turns, and each direction
// has half the bandwidth. Therefore messages are cut into pieces that need no agreement. The receiver reports to the
// sender how many pieces it has begun to receive, so that MPI itself never has to keep any. Few are ahead, because they
// wait in the socket in front of later messages: 128 pieces made a step over 100 Mbit/s up to 15 % longer than 16 do.
constexpr std::size_t kPieceBytes = 60 << 10;
constexpr int kMaxPieces = 16, kFewestPieces = 4;  // that a rank receives at once on a channel: of all, of each other
constexpr int kAllowances = 64;                    // the tag of these numbers, plus the channel
constexpr int kMaxRounds = 16;                     // of a poll

/// Throws the error of a call.
void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw BadInput("MPI", "{}: {}", call, text.data());
}

class MpiTransport : public Transport {
 public:
  MpiTransport() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_SERIALIZED)
      throw BadInput("MPI", "expected an MPI that several threads may call in turn");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    max_at_once_ = std::max(kFewestPieces, kMaxPieces / std::max(1, size_ - 1));
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void send(int to, int channel, std::span<const std::byte> bytes, std::shared_ptr<Message> message) override {
    add(Way::send, to, channel, {const_cast<std::byte*>(bytes.data()), bytes.size()}, std::move(message));
  }

  void receive(int from, int channel, std::span<std::byte> bytes, std::shared_ptr<Message> message) override {
    add(Way::receive, from, channel, bytes, std::move(message));
  }

  bool poll() override {
    int n_rounds = 0;
    while (n_rounds < kMaxRounds && take_done()) ++n_rounds;
    return n_rounds > 0;
  }

  void finish() override {
    for (MPI_Request& request : requests_) {
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    requests_.clear();
    parts_.clear();
    MPI_Finalize();
  }

  void abort(int status) override { MPI_Abort(MPI_COMM_WORLD, status); }

 private:
  enum class Way { send, receive };

  /// A message that is not done.
  struct Transfer {
    std::span<std::byte> rest;  // of which no piece is under way
    std::size_t unfinished = 0;
    bool is_small = false;
    std::shared_ptr<Message> message;
  };
  /// The messages to or from a rank on a channel, in their order. Both ends cut them into the same pieces.
  struct Lane {
    Way way = Way::send;
    int other = 0, channel = 0;
    std::deque<std::shared_ptr<Transfer>> waiting = {};  // those with a rest
    int n_received_at_once = 0;                          // pieces of large messages
    int n_allowed = 0;                                   // pieces: to send, or to report to the sender
    int allowance = 0;                                   // the memory of its message
    bool has_allowance = false;                          // whose message is under way
  };
  struct Part {
    Lane* lane = nullptr;
    std::shared_ptr<Transfer> transfer;  // null: an allowance
  };

  void add(Way way, int other, int channel, std::span<std::byte> bytes, std::shared_ptr<Message> message) {
    Lane& lane = lanes_.try_emplace({way, other, channel}, Lane{way, other, channel}).first->second;
    const std::size_t pieces = std::max<std::size_t>(1, (bytes.size() + kPieceBytes - 1) / kPieceBytes);
    lane.waiting.push_back(std::make_shared<Transfer>(Transfer{bytes, pieces, pieces == 1, std::move(message)}));
    proceed(lane);
  }

  void begin(Lane& lane, Way way, void* data, std::size_t size, int tag, std::shared_ptr<Transfer> transfer) {
    MPI_Request request{};
    const int n = static_cast<int>(size);
    if (way == Way::send) {
      check(MPI_Isend(data, n, MPI_BYTE, lane.other, tag, MPI_COMM_WORLD, &request), "MPI_Isend");
    } else {
      check(MPI_Irecv(data, n, MPI_BYTE, lane.other, tag, MPI_COMM_WORLD, &request), "MPI_Irecv");
    }
    requests_.push_back(request);
    parts_.push_back({&lane, std::move(transfer)});
  }

  /// Begins what may begin.
  void proceed(Lane& lane) {
    const bool sends = lane.way == Way::send;
    const auto may_begin = [&] {
      return lane.waiting.front()->is_small || (sends ? lane.n_allowed > 0 : lane.n_received_at_once < max_at_once_);
    };
    while (!lane.waiting.empty() && may_begin()) {
      const std::shared_ptr<Transfer> transfer = lane.waiting.front();
      const std::span<std::byte> piece = transfer->rest.first(std::min(kPieceBytes, transfer->rest.size()));
      transfer->rest = transfer->rest.subspan(piece.size());
      if (transfer->rest.empty()) lane.waiting.pop_front();
      if (!transfer->is_small) {
        lane.n_allowed += sends ? -1 : 1;
        if (!sends) ++lane.n_received_at_once;
      }
      begin(lane, lane.way, piece.data(), piece.size(), lane.channel, transfer);
    }
    if (lane.has_allowance || (sends ? lane.waiting.empty() : lane.n_allowed == 0)) return;
    lane.has_allowance = true;
    if (!sends) lane.allowance = std::exchange(lane.n_allowed, 0);
    begin(lane, sends ? Way::receive : Way::send, &lane.allowance, sizeof lane.allowance, kAllowances + lane.channel,
          {});
  }

  /// Marks what is done, and begins what may follow. Returns whether anything was done.
  bool take_done() {
    done_.resize(requests_.size());
    int n_done = 0;
    check(
        MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &n_done, done_.data(), MPI_STATUSES_IGNORE),
        "MPI_Testsome");
    if (n_done == MPI_UNDEFINED || n_done == 0) return false;
    std::vector<Lane*> lanes;
    for (int i = 0; i < n_done; ++i) {
      const Part& part = parts_[static_cast<std::size_t>(done_[static_cast<std::size_t>(i)])];
      Lane& lane = *part.lane;
      if (part.transfer == nullptr) {
        lane.has_allowance = false;
        if (lane.way == Way::send) lane.n_allowed += lane.allowance;
      } else {
        if (lane.way == Way::receive && !part.transfer->is_small) --lane.n_received_at_once;
        if (--part.transfer->unfinished == 0) part.transfer->message->is_done = true;
      }
      lanes.push_back(&lane);
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      parts_[kept++] = std::move(parts_[i]);
    }
    requests_.resize(kept);
    parts_.resize(kept);
    for (Lane* const lane : lanes) proceed(*lane);
    return true;
  }

  int rank_ = 0, size_ = 1;
  int max_at_once_ = 0;
  std::map<std::tuple<Way, int, int>, Lane> lanes_;
  std::vector<MPI_Request> requests_;
  std::vector<Part> parts_;  // of the requests
  std::vector<int> done_;
};

}  // namespace
}  // namespace vitrine

extern "C" __attribute__((visibility("default"))) vitrine::Transport* vitrine_open_transport_2();
vitrine::Transport* vitrine_open_transport_2() { return new vitrine::MpiTransport; }
