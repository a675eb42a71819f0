#include "ranks/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"

namespace vitrine {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kSignEvery_s = 0.2;
constexpr double kAnswerWithin_s = 0.6;
constexpr double kAnnounceWithin_s = 0.1;
constexpr double kPollWithin_s = 10;
constexpr std::byte kReports{1};  // the sign of life of a rank that reports why the run ends
// The courier polls more often while messages proceed: each of its polls interrupts the computation. Without messages,
// it rests, but not at once, because waking it would cost more than its polls.
constexpr std::chrono::milliseconds kShortestPause{1}, kLongestPause{5}, kRest{100};
constexpr double kRestAfter_s = 0.1;
constexpr std::size_t kHostBytes = 64;
constexpr std::size_t kErrorBytes = 1024;

/// The time to sleep between polls: none at first, because ranks that run a model together wait often and shortly; then
/// a sixteenth of the time waited so far, so that a wait becomes at most that much longer.
class Pause {
 public:
  void operator()() {
    const auto waited = std::chrono::steady_clock::now() - begun_;
    if (waited < kAwake) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::clamp<std::chrono::nanoseconds>(waited / 16, kShortest, kLongest));
    }
  }

 private:
  static constexpr std::chrono::microseconds kAwake{500}, kShortest{50}, kLongest{1000};

  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace

Ranks::Ranks(std::unique_ptr<Transport> transport, double peer_timeout_s)
    : transport_(std::move(transport)),
      rank_(transport_->rank()),
      size_(transport_->size()),
      peer_timeout_s_(peer_timeout_s) {
  const Clock::time_point now = Clock::now();
  for (int r = rank_ == 0 ? 1 : 0; r < (rank_ == 0 ? size_ : 1); ++r) peers_.push_back({r, {}, {}, {}, {}, now});
  hosts_.assign(static_cast<std::size_t>(size_), "a host that has not answered");
  courier_ = std::thread([this] { run_courier(); });
  try {
    exchange_hosts();
  } catch (...) {
    stop_courier();
    throw;
  }
}

Ranks::~Ranks() { stop_courier(); }

std::string Ranks::name(int rank) const { return fmt::format("rank {} on {}", rank, host(rank)); }

void Ranks::exchange_hosts() {
  std::array<char, kHostBytes> own{};
  ::gethostname(own.data(), own.size() - 1);
  const std::vector<char> all = gather_values<char>(own);
  for (std::size_t r = 0; r < hosts_.size(); ++r) hosts_[r] = all.data() + r * kHostBytes;
}

void Ranks::tell_of_the_dead(const std::atomic<bool>& is_ending, std::function<void(const std::string&)> tell) {
  const std::lock_guard lock(mutex_);
  is_ending_ = &is_ending;
  tell_ = std::move(tell);
}

void Ranks::end_if_stuck(const std::atomic<bool>& is_ending, std::function<void(const std::string&)> end) {
  watch_ = std::jthread([this, &is_ending, end = std::move(end)](const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any stopped;
    Clock::time_point looked = Clock::now();
    bool was_itself_stopped = false;  // then others may long have found it silent
    while (!stopped.wait_for(lock, stop, std::chrono::milliseconds(100), [&] { return stop.stop_requested(); })) {
      const Clock::time_point now = Clock::now();
      const bool is_late = Seconds(now - std::exchange(looked, now)).count() > 2;
      was_itself_stopped |= is_late;
      const Clock::rep since = polls_since_;
      const double within_s = is_ending && !was_itself_stopped ? kAnswerWithin_s : kPollWithin_s;
      if (is_late || since == 0 || Seconds(now.time_since_epoch() - Clock::duration(since)).count() < within_s)
        continue;
      if (size_ == 2 && !is_reported_) return end(name(1 - rank_) + " has died or does not answer");
      return end(is_ending ? "" : fmt::format("[{}] a call of MPI has not returned for {} s", name(rank_), within_s));
    }
  });
}

Tickets Ranks::begin(bool sends, int other, std::byte* data, std::size_t size, Channel channel) {
  Tickets tickets;
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw PeerLost("ranks", "{}", failure_);
  if (open_.empty()) open_since_ = Clock::now();
  for (std::size_t at = 0; at < size; at += kMaxMessageBytes) {
    const std::span<std::byte> part(data + at, std::min(kMaxMessageBytes, size - at));
    auto message = std::make_shared<Message>();
    tickets.push_back(message);
    open_.push_back(message);
    if (sends) {
      transport_->send(other, static_cast<int>(channel), part, std::move(message));
      traffic_.bytes_sent += static_cast<std::int64_t>(part.size());
    } else {
      transport_->receive(other, static_cast<int>(channel), part, std::move(message));
    }
  }
  if (is_resting_) work_.notify_one();
  return tickets;
}

Tickets Ranks::send(int to, std::span<const std::byte> bytes, Channel channel) {
  return begin(true, to, const_cast<std::byte*>(bytes.data()), bytes.size(), channel);
}

Tickets Ranks::receive(int from, std::span<std::byte> bytes, Channel channel) {
  return begin(false, from, bytes.data(), bytes.size(), channel);
}

/// Rank r sends to r + 1 first, so that not all ranks send to the same one at once.
Tickets Ranks::gather(std::span<std::byte> all, std::span<const std::int64_t> bounds, Channel channel) {
  Tickets tickets;
  const auto part = [&](int r) {
    const auto first = static_cast<std::size_t>(bounds[static_cast<std::size_t>(r)]);
    return all.subspan(first, static_cast<std::size_t>(bounds[static_cast<std::size_t>(r) + 1]) - first);
  };
  for (int i = 1; i < size_; ++i) {
    const int from = (rank_ + size_ - i) % size_;
    append(tickets, receive(from, part(from), channel));
  }
  for (int i = 1; i < size_; ++i) append(tickets, send((rank_ + i) % size_, part(rank_), channel));
  return tickets;
}

bool Ranks::is_done(const Tickets& tickets) const {
  return std::all_of(tickets.begin(), tickets.end(), [](const auto& message) { return message->is_done.load(); });
}

void Ranks::wait(const Tickets& tickets) {
  if (is_done(tickets)) return;
  const Clock::time_point begun = Clock::now();
  for (Pause pause; !is_done(tickets); pause()) {
    const std::lock_guard lock(mutex_);
    poll();
    if (!failure_.empty()) throw PeerLost("ranks", "{}", failure_);
  }
  traffic_.wait_s += Seconds(Clock::now() - begun).count();
}

void Ranks::give_up() {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = "this rank has given up";
}

/// A binomial tree: in round k, the 2^k ranks that have the bytes send them to the next 2^k.
void Ranks::broadcast(std::span<std::byte> bytes) {
  Tickets tickets;
  for (int have = 1; have < size_; have *= 2) {
    if (rank_ >= have && rank_ < 2 * have) wait(receive(rank_ - have, bytes, Channel::control));
    if (rank_ < have && rank_ + have < size_) append(tickets, send(rank_ + have, bytes, Channel::control));
  }
  wait(tickets);
}

std::string Ranks::broadcast(const std::string& text) {
  std::uint64_t size = text.size();
  broadcast(std::as_writable_bytes(std::span(&size, 1)));
  std::string shared = is_first() ? text : std::string(size, '\0');
  broadcast(std::as_writable_bytes(std::span(shared.data(), shared.size())));
  return shared;
}

void Ranks::agree(const std::exception_ptr& failure, const std::string& message) {
  if (is_alone()) return;
  std::array<char, kErrorBytes> own{};
  std::memcpy(own.data(), message.data(), std::min(message.size(), own.size() - 1));
  if (failure && message.empty()) own[0] = '?';
  const std::vector<char> all = gather_values<char>(own);
  for (int r = 0; r < size_; ++r) {
    const char* const text = all.data() + static_cast<std::size_t>(r) * kErrorBytes;
    if (*text == '\0') continue;
    has_agreed_to_fail_ = true;
    if (!is_first()) throw ReportedElsewhere();
    if (r == 0) std::rethrow_exception(failure);
    throw BadInput(name(r), "{}", text);
  }
}

Ranks::Traffic Ranks::take_traffic() {
  const std::lock_guard lock(mutex_);
  if (!open_.empty()) {
    const Clock::time_point now = Clock::now();
    traffic_.communicate_s += Seconds(now - open_since_).count();
    open_since_ = now;
  }
  return std::exchange(traffic_, {});
}

bool Ranks::poll() {
  if (!failure_.empty()) return false;
  bool proceeds = false;
  polls_since_ = Clock::now().time_since_epoch().count();
  try {
    proceeds = transport_->poll();
  } catch (const std::exception& e) {
    failure_ = e.what();
  }
  polls_since_ = 0;
  if (open_.empty() || !failure_.empty()) return proceeds;
  std::erase_if(open_, [](const auto& message) { return message->is_done.load(); });
  if (open_.empty()) traffic_.communicate_s += Seconds(Clock::now() - open_since_).count();
  return proceeds;
}

/// Sends and receives signs of life.
void Ranks::show_life() {
  const Clock::time_point now = Clock::now();
  const bool is_due = now >= next_sign_;
  if (is_due) next_sign_ = now + std::chrono::duration_cast<Clock::duration>(Seconds(kSignEvery_s));
  constexpr int kLife = static_cast<int>(Channel::life);
  for (Peer& peer : peers_) {
    if (peer.receiving == nullptr || peer.receiving->is_done) {
      if (peer.receiving != nullptr) peer.last = now;
      if (peer.received == kReports) is_reported_ = true;
      auto message = std::make_shared<Message>();
      peer.receiving = message;
      transport_->receive(peer.rank, kLife, {&peer.received, 1}, std::move(message));
    }
    if (is_due && (peer.sending == nullptr || peer.sending->is_done)) {
      auto message = std::make_shared<Message>();
      peer.sending = message;
      transport_->send(peer.rank, kLife, {&peer.sent, 1}, std::move(message));
    }
  }
}

/// Rank 0 may end the run before others notice, so that one rank reports.
void Ranks::check_life() {
  const double patience = rank_ == 0 ? 0.0 : 2.0 + 0.1 * std::min(rank_, 50);
  const Clock::time_point now = Clock::now();
  for (const Peer& peer : peers_) {
    if (Seconds(now - peer.last).count() < peer_timeout_s_ + patience) continue;
    failure_ = fmt::format("{} has been silent for {:.0f} s (--peer-timeout)", name(peer.rank), peer_timeout_s_);
    return;
  }
}

/// Rank 0 tells of the others, and rank 1 of rank 0. The launcher may have killed more ranks meanwhile: the first
/// counts.
void Ranks::look_for_the_dead() {
  if (is_ending_ == nullptr || is_reported_ || !is_ending_->load() || !failure_.empty()) return;
  const Clock::time_point now = Clock::now();
  if (!ends_since_) {
    ends_since_ = now;
    if (is_first()) announce_report();
  }
  if (Seconds(now - *ends_since_).count() < kAnswerWithin_s) return;
  is_ending_ = nullptr;
  if (rank_ > 1) return;
  const Peer& first =
      *std::min_element(peers_.begin(), peers_.end(), [](const Peer& a, const Peer& b) { return a.last < b.last; });
  if (Seconds(now - first.last).count() > kAnswerWithin_s) tell_(name(first.rank) + " has died or does not answer");
}

void Ranks::run_courier() {
  std::unique_lock lock(mutex_);
  std::chrono::milliseconds pause = kShortestPause;
  while (!is_stopping_) {
    const Clock::time_point begun = Clock::now();
    try {
      if (failure_.empty()) show_life();
      look_for_the_dead();
    } catch (const std::exception& e) {
      failure_ = e.what();
    }
    pause = poll() ? kShortestPause : std::min(2 * pause, kLongestPause);
    if (failure_.empty()) check_life();
    is_resting_ = open_.empty() && Seconds(Clock::now() - open_since_).count() > kRestAfter_s;
    work_.wait_for(lock, is_resting_ ? kRest : pause);
    // This process was itself stopped: the signs that have arrived meanwhile are still to be received.
    if (Seconds(Clock::now() - begun).count() > 2) {
      for (Peer& peer : peers_) peer.last = Clock::now();
    }
  }
}

/// Tells the peers that this rank reports why the run ends, so that none reports that it does not answer.
std::vector<std::shared_ptr<Message>> Ranks::announce_report() {
  std::vector<std::shared_ptr<Message>> signs;
  for (const Peer& peer : peers_) {
    signs.push_back(std::make_shared<Message>());
    transport_->send(peer.rank, static_cast<int>(Channel::life), {&kReports, 1}, signs.back());
  }
  return signs;
}

void Ranks::stop_courier() {
  if (!courier_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  work_.notify_one();
  courier_.join();
}

void Ranks::finish() {
  if (transport_ == nullptr) return;
  const char here = 0;
  gather_values<char>({&here, 1});
  stop_courier();
  transport_->finish();
}

void Ranks::abort(int status) {
  if (transport_ == nullptr) return;
  stop_courier();
  const Clock::time_point begun = Clock::now();
  const auto is_sent = [](const auto& sign) { return sign->is_done.load(); };
  try {
    const std::vector<std::shared_ptr<Message>> signs = announce_report();
    while (!std::all_of(signs.begin(), signs.end(), is_sent) &&
           Seconds(Clock::now() - begun).count() < kAnnounceWithin_s) {
      transport_->poll();
    }
  } catch (const std::exception&) {  // the others are gone
  }
  transport_->abort(status);
}

}  // namespace vitrine
