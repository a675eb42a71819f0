#include "serve/round_loop.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "serve/scheduler.h"

namespace vitrine {

RoundTurns::Claim RoundTurns::next(std::span<const Claim> claims) {
  double least = std::numeric_limits<double>::infinity();
  for (const Claim& claim : claims) {
    double& seconds = seconds_of_[claim.client];
    seconds = std::max(seconds, least_);  // time without work is not saved
    least = std::min(least, seconds);
  }
  least_ = least;
  const auto rank = [&](const Claim& claim) { return std::pair(seconds_of_[claim.client], claim.last_turn); };
  return *std::ranges::min_element(claims, {}, rank);
}

void RoundLoop::add(std::shared_ptr<Scheduler> scheduler) {
  bool drains = false, stops = false;
  {
    const std::lock_guard lock(mutex_);
    members_.push_back({scheduler});
    drains = is_draining_;
    stops = is_stopping_;
  }
  if (drains) scheduler->drain(stops);
  wake();
}

void RoundLoop::remove(const std::shared_ptr<Scheduler>& scheduler) {
  scheduler->drain(true);
  std::unique_lock lock(mutex_);
  const auto is_it = [&](const Member& member) { return member.scheduler == scheduler; };
  if (std::erase_if(members_, is_it) == 0) return;
  leaving_.push_back(scheduler);
  has_changed_ = true;
  changed_.notify_one();
  has_let_go_.wait(lock, [&] { return !is_running_ || std::ranges::count(leaving_, scheduler) == 0; });
  if (std::erase(leaving_, scheduler) > 0) scheduler->prepare();  // there are no rounds
}

void RoundLoop::wake() {
  const std::lock_guard lock(mutex_);
  has_changed_ = true;
  changed_.notify_one();
}

void RoundLoop::drain() {
  std::vector<Member> members;
  {
    const std::lock_guard lock(mutex_);
    is_draining_ = true;
    members = members_;
  }
  for (const Member& member : members) member.scheduler->drain(false);
  wake();
}

void RoundLoop::stop() {
  std::vector<Member> members;
  {
    const std::lock_guard lock(mutex_);
    is_draining_ = is_stopping_ = true;
    members = members_;
  }
  for (const Member& member : members) member.scheduler->drain(true);
  wake();
}

void RoundLoop::run() {
  {
    const std::lock_guard lock(mutex_);
    is_running_ = true;
  }
  while (true) {
    let_go();
    std::vector<Scheduler*> ready = members();
    std::erase_if(ready, [](Scheduler* scheduler) { return !scheduler->prepare(); });
    if (!ready.empty()) {
      turn(ready);
    } else if (!wait()) {
      return;
    }
  }
}

/// Ends the work of schedulers that leave.
void RoundLoop::let_go() {
  std::vector<std::shared_ptr<Scheduler>> leaving;
  {
    const std::lock_guard lock(mutex_);
    leaving = leaving_;
  }
  for (const std::shared_ptr<Scheduler>& scheduler : leaving) scheduler->prepare();
  const std::lock_guard lock(mutex_);
  std::erase_if(leaving_, [&](const auto& scheduler) { return std::ranges::count(leaving, scheduler) > 0; });
  leaving.clear();  // who waits destroys what schedulers refer to, so none of them must end here
  has_let_go_.notify_all();
}

/// Those that have rounds. They stay until the next let_go().
std::vector<Scheduler*> RoundLoop::members() {
  const std::lock_guard lock(mutex_);
  std::vector<Scheduler*> schedulers;
  for (const Member& member : members_) schedulers.push_back(member.scheduler.get());
  return schedulers;
}

/// Waits for a change. Returns false at the end of all work.
bool RoundLoop::wait() {
  std::unique_lock lock(mutex_);
  const auto has_ended = [](const Member& member) { return member.scheduler->has_ended(); };
  if (is_draining_ && leaving_.empty() && std::ranges::all_of(members_, has_ended)) {
    is_running_ = false;
    return false;
  }
  changed_.wait(lock, [&] { return has_changed_; });
  has_changed_ = false;
  return true;
}

/// Runs one round of one of the schedulers.
void RoundLoop::turn(const std::vector<Scheduler*>& ready) {
  std::vector<RoundTurns::Claim> claims;
  std::map<const Scheduler*, std::uint64_t> last_turns;
  {
    const std::lock_guard lock(mutex_);
    for (const Member& member : members_) last_turns[member.scheduler.get()] = member.last_turn;
  }
  for (std::size_t i = 0; i < ready.size(); ++i) {
    for (const std::size_t client : ready[i]->clients()) claims.push_back({i, client, last_turns[ready[i]]});
  }
  const RoundTurns::Claim claim = turns_.next(claims);
  Scheduler& next = *ready[claim.model];
  RoundShare share{std::ssize(ready)};
  for (const Scheduler* other : ready) share.others_decode |= other != &next && other->n_decoding() > 0;
  const auto start = ServerClock::now();
  next.turn(share);
  turns_.charge(claim.client, std::chrono::duration<double>(ServerClock::now() - start).count());
  const std::lock_guard lock(mutex_);
  for (Member& member : members_) {
    if (member.scheduler.get() == &next) member.last_turn = ++n_turns_;
  }
}

}  // namespace vitrine
