#include "serve/scheduler.h"

#include <algorithm>

#include "generate/model_store.h"
#include "generate/prefix_cache.h"
#include "generate/speculation.h"
#include "serve/request_fields.h"
#include "serve/round_loop.h"

namespace vitrine {

void Job::report(SequenceStep step) {
  {
    const std::lock_guard lock(mutex_);
    if (!step.tokens.empty() && !times_.first_token) times_.first_token = ServerClock::now();
    if (step.result) times_.ended = ServerClock::now();
    if (!streams_ && !step.result && !step.error) return;
    steps_.push_back(std::move(step));
  }
  notify_();
}

void Job::mark_admitted() {
  const std::lock_guard lock(mutex_);
  if (!times_.admitted) times_.admitted = ServerClock::now();
}

namespace {

GenerateContext with_memory(GenerateContext context, KvMemory& memory) {
  context.kv_memory = &memory;
  return context;
}

double seconds_between(ServerClock::time_point from, ServerClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Scheduler::Scheduler(const GenerateContext& context, KvPool& memory, const SchedulerConfig& config, Metrics& metrics,
                     RoundLoop& loop)
    : context_(with_memory(context, memory)),
      memory_(memory),
      config_(config),
      metrics_(metrics),
      loop_(loop),
      engine_(context_),
      budget_(config.round_seconds) {
  metrics_.kv_capacity_bytes = memory.capacity_bytes();
  if (context.speculation != nullptr) metrics_.draft_method.set(context.speculation->method);
}

void Scheduler::check_space(std::size_t client, std::int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  check_space_locked(client, bytes);
}

void Scheduler::check_space_locked(std::size_t client, std::int64_t bytes) const {
  if (is_draining_) throw RequestError(kUnavailable, "request", "the server is shutting down");
  const auto own = n_waiting_.find(client);
  const int n = own != n_waiting_.end() ? own->second : 0;
  const bool has_bytes = waiting_bytes_ == 0 || waiting_bytes_ + bytes <= config_.max_queue_bytes;
  if (has_bytes && n < static_cast<int>(config_.max_queue)) return;
  ++metrics_.rejected;
  throw RequestError(kQueueFull, "request", "the queue is full ({} requests wait); try again later", n)
      .with_retry(last_wait_);
}

/// Refuses a constraint without an answer that is short enough, before the response begins.
void Scheduler::check_answer(const GenerateRequest& request) const {
  const std::int64_t room = context_.model->config().max_seq_len + 1 - std::ssize(request.prompt);
  const std::string why = why_too_few(request.answer, std::min(request.max_tokens, room));
  if (!why.empty() && request.max_tokens > 0) throw RequestError(kInvalid, "max_tokens", "{}", why);
}

void Scheduler::submit(std::shared_ptr<Job> job) {
  for (std::size_t i = 0; i < job->n_sequences(); ++i) {
    check_answer(job->sequence(i));
    const std::int64_t bytes = Engine::max_bytes(context_, job->sequence(i));
    if (bytes <= memory_.capacity_bytes()) continue;
    throw RequestError(kTooLong, "max_tokens",
                       "the KV cache of {} tokens and at most {} new ones needs {} bytes, the server has {}",
                       job->sequence(i).prompt.size(), job->sequence(i).max_tokens, bytes, memory_.capacity_bytes());
  }
  accept(std::move(job), submitted_);
}

void Scheduler::submit(std::shared_ptr<TextTask> task) { accept(std::move(task), submitted_tasks_); }

template <class Work>
void Scheduler::accept(std::shared_ptr<Work> work, std::vector<std::shared_ptr<Work>>& submitted) {
  {
    const std::lock_guard lock(mutex_);
    check_space_locked(work->client(), work->waiting_bytes());
    count_waiting(*work, 1);
    ++metrics_.requests;
    submitted.push_back(std::move(work));
  }
  loop_.wake();
}

template <class Work>
void Scheduler::count_waiting(const Work& work, int change) {
  n_waiting_[work.client()] += change;
  waiting_bytes_ += change * work.waiting_bytes();
  metrics_.waiting += change;
}

void Scheduler::wake() { loop_.wake(); }

void Scheduler::drain(bool ends_all) {
  const std::lock_guard lock(mutex_);
  is_draining_ = true;
  is_stopping_ |= ends_all;
}

bool Scheduler::prepare() {
  take_submitted();
  drop_cancelled();
  update_pauses();
  admit();
  update_gauges();
  return engine_.has_work() || !tasks_.empty();
}

std::vector<std::size_t> Scheduler::clients() const {
  std::vector<std::size_t> clients;
  for (const auto& [id, running] : running_) {
    if (!running.entry->is_paused) clients.push_back(running.entry->job->client());
  }
  for (const std::shared_ptr<TextTask>& task : tasks_) clients.push_back(task->client());
  std::ranges::sort(clients);
  const auto repeated = std::ranges::unique(clients);
  clients.erase(repeated.begin(), repeated.end());
  return clients;
}

void Scheduler::turn(const RoundShare& share) {
  if (engine_.has_work()) round(share);
  if (!tasks_.empty()) encode_some(share);
}

bool Scheduler::has_ended() const {
  const std::lock_guard lock(mutex_);
  return is_draining_ && entries_.empty() && tasks_.empty() && submitted_.empty() && submitted_tasks_.empty();
}

void Scheduler::take_submitted() {
  std::vector<std::shared_ptr<Job>> submitted;
  std::vector<std::shared_ptr<TextTask>> tasks;
  bool stops = false;
  {
    const std::lock_guard lock(mutex_);
    submitted.swap(submitted_);
    tasks.swap(submitted_tasks_);
    stops = is_stopping_;
  }
  for (std::shared_ptr<Job>& job : submitted) entries_.push_back({std::move(job)});
  tasks_.insert(tasks_.end(), tasks.begin(), tasks.end());
  if (stops) fail_all();
}

void Scheduler::drop_cancelled() {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto current = entry++;
    if (!current->job->is_cancelled()) continue;
    ++metrics_.cancelled;
    end_entry(*current);
  }
  for (const std::shared_ptr<TextTask>& task : std::list(tasks_)) {
    if (!task->is_cancelled()) continue;
    ++metrics_.cancelled;
    end_task(task);
  }
}

void Scheduler::update_pauses() {
  for (Entry& entry : entries_) {
    const std::size_t n = entry.job->n_steps();
    const bool pauses = n > (entry.is_paused ? Job::kMaxSteps / 2 : Job::kMaxSteps);
    if (!entry.job->streams() || pauses == entry.is_paused) continue;
    entry.is_paused = pauses;
    for (const std::uint64_t id : entry.running) engine_.pause(id, pauses);
  }
}

Scheduler::Entry* Scheduler::next_entry() {
  std::map<std::size_t, std::size_t> running_of_client;
  for (const auto& [id, running] : running_) ++running_of_client[running.entry->job->client()];
  Entry* next = nullptr;
  const auto rank = [&](const Entry& entry) {
    return std::pair(running_of_client[entry.job->client()], entry.running.size());
  };
  for (Entry& entry : entries_) {
    if (entry.is_paused || entry.n_admitted == entry.job->n_sequences()) continue;
    if (next == nullptr || rank(entry) < rank(*next)) next = &entry;
  }
  return next;
}

/// The number of sequences that rounds have to serve.
std::size_t Scheduler::n_active() const {
  const auto is_active = [](const auto& running) { return !running.second.entry->is_paused; };
  return static_cast<std::size_t>(std::count_if(running_.begin(), running_.end(), is_active));
}

void Scheduler::admit() {
  while (n_active() < config_.max_sequences) {
    Entry* const entry = next_entry();
    if (entry == nullptr) return;
    if (!engine_.fits(entry->job->sequence(entry->n_admitted))) return;  // waits for memory
    start(*entry);
  }
}

/// Whose keys and values those of a sequence may share. The numbers of clients are those of this server alone.
std::string Scheduler::owner_of(const Job& job, const GenerateRequest& request) const {
  const std::size_t client = job.client();
  const std::string name = client < config_.clients.size() ? config_.clients[client] : std::to_string(client);
  return fmt::format("{} {}", name, request.owner);
}

/// Gives the next sequence of a job to the engine.
void Scheduler::start(Entry& entry) {
  const std::size_t number = entry.n_admitted++;
  if (number == 0) {
    entry.job->mark_admitted();
    const JobTimes times = entry.job->times();
    metrics_.queue.observe(seconds_between(times.submitted, *times.admitted));
    const std::lock_guard lock(mutex_);
    last_wait_ = std::clamp(std::chrono::ceil<std::chrono::seconds>(*times.admitted - times.submitted),
                            std::chrono::seconds(1), std::chrono::seconds(60));
    count_waiting(*entry.job, -1);
  }
  std::uint64_t id = 0;
  try {
    GenerateRequest request = entry.job->take_sequence(number);
    if (request.receive_hidden) ++metrics_.texts;
    request.owner = owner_of(*entry.job, request);
    id = engine_.add(std::move(request));
  } catch (...) {
    return fail(entry, std::current_exception());
  }
  running_.emplace(id, Running{&entry, number});
  entry.running.push_back(id);
}

void Scheduler::round(const RoundShare& share) {
  const auto start = ServerClock::now();
  EngineStep step;
  try {
    step = engine_.step(budget_.rows(engine_.n_decoding(), share));
  } catch (...) {  // not enough memory for the lists of a pass
    return fail_running(std::current_exception());
  }
  const auto now = ServerClock::now();
  if (step.prompt_tokens > 0) {
    budget_.measure(step.prompt_tokens + step.decoded_tokens, seconds_between(start, now), share);
  }
  if (context_.store != nullptr) {
    const std::int64_t hits = context_.store->hit_tokens();
    metrics_.prefix_store_hit_tokens += hits - store_hits_;
    store_hits_ = hits;
  }
  metrics_.prompt_tokens += step.prompt_tokens;
  metrics_.draft_tokens += step.speculation.drafted;
  metrics_.draft_tokens_accepted += step.speculation.accepted;
  for (SequenceStep& s : step.sequences) deliver(std::move(s), now);
}

/// Reads some texts, those of the task whose turn it is among them.
void Scheduler::encode_some(const RoundShare& share) {
  const TextRound round = next_text_round(tasks_, budget_.rows(engine_.n_decoding(), share));
  metrics_.prompt_tokens += round.n_tokens;  // before a client has its answer
  metrics_.texts += round.n_texts;
  read_text_round(context_, round);
  for (const auto& [task, n] : round.parts) {
    if (task->has_ended()) {
      const JobTimes times = task->times();
      metrics_.queue.observe(seconds_between(times.submitted, *times.admitted));
      end_task(task);
    } else {
      tasks_.splice(tasks_.end(), tasks_, std::ranges::find(tasks_, task));
    }
  }
}

void Scheduler::end_task(std::shared_ptr<TextTask> task) {
  tasks_.remove(task);
  const std::lock_guard lock(mutex_);
  count_waiting(*task, -1);
}

/// Reports a step to its job.
void Scheduler::deliver(SequenceStep step, ServerClock::time_point now) {
  const auto at = running_.find(step.id);
  if (at == running_.end()) return;  // its job has failed in this round
  const std::uint64_t id = step.id;
  Running& running = at->second;
  Entry& entry = *running.entry;
  if (step.error) {
    end_sequence(id);
    return fail(entry, step.error);
  }
  if (!step.tokens.empty()) {
    metrics_.generated_tokens += std::ssize(step.tokens);
    if (!entry.job->times().first_token) {
      metrics_.time_to_first_token.observe(seconds_between(entry.job->times().submitted, now));
    }
    if (running.last_token) metrics_.inter_token.observe(seconds_between(*running.last_token, now));
    running.last_token = now;
  }
  const bool has_ended = step.result.has_value();
  if (has_ended) metrics_.prefix_cache_hit_tokens += step.result->cached_tokens;
  step.id = running.number;
  if (has_ended) end_sequence(id);
  entry.job->report(std::move(step));
  if (has_ended && ++entry.n_ended == entry.job->n_sequences()) end_entry(entry);
}

/// Forgets a sequence that the engine no longer has.
void Scheduler::end_sequence(std::uint64_t id) {
  const auto at = running_.find(id);
  std::erase(at->second.entry->running, id);
  running_.erase(at);
}

/// Ends the work of a job and forgets it.
void Scheduler::end_entry(Entry& entry) {
  while (!entry.running.empty()) {
    const std::uint64_t id = entry.running.back();
    engine_.cancel(id);
    end_sequence(id);
  }
  if (entry.n_admitted == 0) {
    const std::lock_guard lock(mutex_);
    count_waiting(*entry.job, -1);
  }
  entries_.remove_if([&](const Entry& other) { return &other == &entry; });
}

/// Ends a job with an error.
void Scheduler::fail(Entry& entry, std::exception_ptr error) {
  const std::shared_ptr<Job> job = entry.job;
  end_entry(entry);
  SequenceStep step;
  step.error = std::move(error);
  job->report(std::move(step));
}

void Scheduler::fail_running(std::exception_ptr error) {
  while (!running_.empty()) fail(*running_.begin()->second.entry, error);
}

void Scheduler::fail_all() {
  const auto error = std::make_exception_ptr(RequestError(kUnavailable, "request", "the server is shutting down"));
  while (!entries_.empty()) fail(entries_.front(), error);
  while (!tasks_.empty()) {
    tasks_.front()->fail(error);
    end_task(tasks_.front());
  }
}

void Scheduler::update_gauges() {
  metrics_.running = std::count_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.n_admitted > 0; });
  const std::int64_t idle = context_.prefixes != nullptr ? context_.prefixes->idle_bytes() : 0;
  metrics_.kv_used_bytes = memory_.used_bytes() - idle;
  metrics_.preemptions = engine_.n_restarts();
}

}  // namespace vitrine
