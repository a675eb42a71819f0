#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace vitrine {
namespace {

void write_head(const char* type, const std::string& name, const char* help, std::string& text) {
  text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

/// The label of a model, in which a backslash, a quote and a line break are escaped.
std::string label_of(const std::string& model) {
  std::string text;
  for (const char c : model) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? "\\n" : std::string(1, c);
  }
  return "model=\"" + text + "\"";
}

struct Series {
  const char *type, *name, *help;
  Metrics::Number Metrics::*value;
};
constexpr Series kSeries[] = {
    {"counter", "requests_total", "Requests for texts and vectors.", &Metrics::requests},
    {"counter", "requests_cancelled_total", "Requests whose client disconnected.", &Metrics::cancelled},
    {"counter", "requests_rejected_total", "Requests refused because the queue was full.", &Metrics::rejected},
    {"counter", "texts_total", "Texts of which vectors, classes or scores were made.", &Metrics::texts},
    {"counter", "prompt_tokens_total", "Tokens of prompts that were computed.", &Metrics::prompt_tokens},
    {"counter", "generation_tokens_total", "Tokens that were generated.", &Metrics::generated_tokens},
    {"counter", "prefix_cache_hit_tokens_total", "Tokens of prompts that were reused.",
     &Metrics::prefix_cache_hit_tokens},
    {"counter", "preemptions_total", "Sequences whose KV cache was freed for others.", &Metrics::preemptions},
    {"gauge", "requests_running", "Requests that take part in rounds.", &Metrics::running},
    {"gauge", "requests_waiting", "Requests that wait for a place.", &Metrics::waiting},
    {"gauge", "kv_used_bytes", "Bytes of the KV caches of active sequences.", &Metrics::kv_used_bytes},
    {"gauge", "kv_capacity_bytes", "Bytes that KV caches may use.", &Metrics::kv_capacity_bytes},
};
/// Of models with proposals.
constexpr Series kDraftSeries[] = {
    {"counter", "draft_tokens_total", "Proposed tokens that were read.", &Metrics::draft_tokens},
    {"counter", "draft_tokens_accepted_total", "Those of them that texts have.", &Metrics::draft_tokens_accepted},
};
struct HistogramSeries {
  const char *name, *help;
  Histogram Metrics::*value;
};
constexpr HistogramSeries kHistograms[] = {
    {"queue_seconds", "Time until a request's first sequence is admitted.", &Metrics::queue},
    {"time_to_first_token_seconds", "Time until a request's first token.", &Metrics::time_to_first_token},
    {"inter_token_seconds", "Time between two tokens of a sequence.", &Metrics::inter_token},
};
struct CountSeries {
  const char *name, *help;
  std::int64_t ModelMetrics::*value;
};
constexpr CountSeries kCounts[] = {
    {"model_loads_total", "How often a model was loaded.", &ModelMetrics::n_loads},
    {"model_unloads_total", "How often a model left.", &ModelMetrics::n_unloads},
};

}  // namespace

void Histogram::observe(double seconds) {
  const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  const std::lock_guard lock(mutex_);
  ++counts_[static_cast<std::size_t>(bucket)];
  sum_ += seconds;
}

void Histogram::write(const std::string& name, const std::string& label, std::string& text) const {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < kBounds.size() ? fmt::format("{}", kBounds[i]) : "+Inf";
    text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, label, bound, count);
  }
  text += fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name, label, sum_, count);
}

/// The tokens that each model has from the store, and what the store itself has counted, if there is one.
void write_store(std::span<const ModelMetrics> models, std::string& text) {
  const auto has_store = [](const ModelMetrics& m) { return m.metrics->prefix_store != nullptr; };
  const auto first = std::ranges::find_if(models, has_store);
  if (first == models.end()) return;
  const PrefixStore& store = *first->metrics->prefix_store;
  constexpr const char* kHits = "vitrine_prefix_store_hit_tokens_total";
  write_head("counter", kHits, "Tokens of prompts that were read from disk.", text);
  for (const ModelMetrics& m : models) {
    if (has_store(m))
      text += fmt::format("{}{{{}}} {}\n", kHits, label_of(m.model), m.metrics->prefix_store_hit_tokens.load());
  }
  const auto add = [&](const char* type, const std::string& name, const char* help, std::int64_t value) {
    write_head(type, name, help, text);
    text += fmt::format("{} {}\n", name, value);
  };
  add("counter", "vitrine_prefix_store_errors_total", "Blocks on disk that were wrong, and failed writes.",
      store.errors());
  add("gauge", "vitrine_prefix_store_bytes", "Bytes of the blocks on disk.", store.bytes());
}

std::string metrics_text(std::span<const ModelMetrics> models) {
  std::string text;
  const auto write = [&](const Series& series, bool names_method) {
    const std::string name = fmt::format("vitrine_{}", series.name);
    write_head(series.type, name, series.help, text);
    for (const ModelMetrics& m : models) {
      const std::string method = m.metrics->draft_method.get();
      if (names_method && method.empty()) continue;
      const std::string more = names_method ? fmt::format(",method=\"{}\"", method) : "";
      text += fmt::format("{}{{{}{}}} {}\n", name, label_of(m.model), more, (m.metrics->*series.value).load());
    }
  };
  for (const Series& series : kSeries) write(series, false);
  const auto drafts = [](const ModelMetrics& m) { return !m.metrics->draft_method.get().empty(); };
  if (std::ranges::any_of(models, drafts)) {
    for (const Series& series : kDraftSeries) write(series, true);
  }
  for (const CountSeries& series : kCounts) {
    const std::string name = fmt::format("vitrine_{}", series.name);
    write_head("counter", name, series.help, text);
    for (const ModelMetrics& m : models) text += fmt::format("{}{{{}}} {}\n", name, label_of(m.model), m.*series.value);
  }
  for (const HistogramSeries& series : kHistograms) {
    const std::string name = fmt::format("vitrine_{}", series.name);
    write_head("histogram", name, series.help, text);
    for (const ModelMetrics& m : models) (m.metrics->*series.value).write(name, label_of(m.model), text);
  }
  write_store(models, text);
  return text;
}

}  // namespace vitrine
