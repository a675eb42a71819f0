#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace vitrine {
namespace {

void write_head(const char* type, const std::string& name, const std::string& help, std::string& text) {
  text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

}  // namespace

void Histogram::observe(double seconds) {
  const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  const std::lock_guard lock(mutex_);
  ++counts_[static_cast<std::size_t>(bucket)];
  sum_ += seconds;
}

void Histogram::write(const std::string& name, const std::string& help, std::string& text) const {
  const std::lock_guard lock(mutex_);
  write_head("histogram", name, help, text);
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < kBounds.size() ? fmt::format("{}", kBounds[i]) : "+Inf";
    text += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, bound, count);
  }
  text += fmt::format("{0}_sum {1}\n{0}_count {2}\n", name, sum_, count);
}

std::string Metrics::text() const {
  std::string text;
  const auto add = [&](const char* type, const std::string& name, const char* help, std::int64_t value) {
    write_head(type, "vitrine_" + name, help, text);
    text += fmt::format("vitrine_{} {}\n", name, value);
  };
  add("counter", "requests_total", "Requests for texts and vectors.", requests);
  add("counter", "requests_cancelled_total", "Requests whose client disconnected.", cancelled);
  add("counter", "requests_rejected_total", "Requests refused because the queue was full.", rejected);
  add("counter", "prompt_tokens_total", "Tokens of prompts that were computed.", prompt_tokens);
  add("counter", "generation_tokens_total", "Tokens that were generated.", generated_tokens);
  add("counter", "prefix_cache_hit_tokens_total", "Tokens of prompts that were reused.", prefix_cache_hit_tokens);
  const auto add_draft = [&](const std::string& name, const char* help, const Number& value) {
    write_head("counter", "vitrine_" + name, help, text);
    text += fmt::format("vitrine_{}{{method=\"{}\"}} {}\n", name, draft_method, value.load());
  };
  if (!draft_method.empty()) {
    add_draft("draft_tokens_total", "Proposed tokens that were read.", draft_tokens);
    add_draft("draft_tokens_accepted_total", "Those of them that texts have.", draft_tokens_accepted);
  }
  if (prefix_store != nullptr) {
    add("counter", "prefix_store_hit_tokens_total", "Tokens of prompts that were read from disk.",
        prefix_store_hit_tokens);
    add("counter", "prefix_store_errors_total", "Blocks on disk that were wrong, and failed writes.",
        prefix_store->errors());
    add("gauge", "prefix_store_bytes", "Bytes of the blocks on disk.", prefix_store->bytes());
  }
  add("counter", "preemptions_total", "Sequences whose KV cache was freed for others.", preemptions);
  add("gauge", "requests_running", "Requests that take part in rounds.", running);
  add("gauge", "requests_waiting", "Requests that wait for a place.", waiting);
  add("gauge", "kv_used_bytes", "Bytes of the KV caches of active sequences.", kv_used_bytes);
  add("gauge", "kv_capacity_bytes", "Bytes that KV caches may use.", kv_capacity_bytes);
  queue.write("vitrine_queue_seconds", "Time until a request's first sequence is admitted.", text);
  time_to_first_token.write("vitrine_time_to_first_token_seconds", "Time until a request's first token.", text);
  inter_token.write("vitrine_inter_token_seconds", "Time between two tokens of a sequence.", text);
  return text;
}

}  // namespace vitrine
