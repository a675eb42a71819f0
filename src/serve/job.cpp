#include "serve/job.h"

namespace vitrine {
namespace {

template <class T>
std::int64_t bytes_of(const std::vector<T>& values) {
  return static_cast<std::int64_t>(values.size() * sizeof(T));
}

}  // namespace

Job::Job(std::size_t client, std::vector<GenerateRequest> sequences, bool streams, std::function<void()> notify)
    : client_(client), streams_(streams), sequences_(std::move(sequences)), notify_(std::move(notify)) {
  waiting_bytes_ = bytes_of(sequences_);
  for (const GenerateRequest& s : sequences_) {
    waiting_bytes_ += bytes_of(s.prompt) + bytes_of(s.source) + bytes_of(s.sampling.logit_bias) + bytes_of(s.stop_ids);
    for (const std::string& stop : s.stop_strings) waiting_bytes_ += std::ssize(stop);
    waiting_bytes_ += bytes_of(s.rules.suppressed) + bytes_of(s.prediction);
    for (const auto& word : s.rules.bad_words) waiting_bytes_ += bytes_of(word);
  }
}

}  // namespace vitrine
