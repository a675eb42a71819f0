#include "conversation/sample_file.h"

#include <algorithm>

#include "base/error.h"

namespace vitrine {
namespace {

/// The samples of a line, before their lengths are checked.
std::vector<Sample> samples_of(const ConversationLine& line, const ConversationEncoder& encoder, bool is_pairs,
                               const std::string& where) {
  if (is_pairs && !line.is_pair()) {
    throw BadInput(where, "expected a pair, with the keys chosen and rejected; got a conversation");
  }
  if (!is_pairs && line.is_pair()) throw BadInput(where, "expected a conversation, got a pair of answers");
  std::vector<Sample> samples;
  for (const Conversation& conversation : line.conversations) {
    std::vector<Sample> own = encoder.encode(conversation, where);
    if (is_pairs && own.size() != 1) {
      throw BadInput(where,
                     "expected answers that are one sample each, got one of {}: the chat template rewrites "
                     "earlier turns",
                     own.size());
    }
    std::move(own.begin(), own.end(), std::back_inserter(samples));
  }
  // Of several turns, those that are not learned (learn = "last") are no samples.
  if (!is_pairs && samples.size() > 1) std::erase_if(samples, [](const Sample& s) { return s.n_learned() == 0; });
  return samples;
}

void cut(Sample& sample, std::int64_t length) {
  sample.ids.resize(static_cast<std::size_t>(length));
  sample.learned.resize(static_cast<std::size_t>(length));
}

}  // namespace

std::int64_t SampleFile::n_ids() const {
  std::int64_t n = 0;
  for (const auto& samples : lines) {
    for (const Sample& sample : samples) n += static_cast<std::int64_t>(sample.ids.size());
  }
  return n;
}

SampleFile read_samples(const std::string& path, const ConversationEncoder& encoder, const SampleFileOptions& options) {
  SampleFile file;
  for_each_line(path, [&](std::string_view text, const std::string& where, std::int64_t) {
    std::vector<Sample> samples = samples_of(parse_conversation(text, where), encoder, options.is_pairs, where);
    bool is_cut = false;
    for (Sample& sample : samples) {
      const auto n = static_cast<std::int64_t>(sample.ids.size());
      if (options.longest == 0 || n <= options.longest) continue;
      if (options.too_long == TooLong::drop) {
        ++file.n_dropped;
        return;
      }
      if (options.too_long == TooLong::refuse) {
        throw BadInput(where,
                       "expected at most {} ids (train.seq_len), got {}: too_long = \"drop\" or \"cut\" allows it",
                       options.longest, n);
      }
      cut(sample, options.longest);
      is_cut = true;
    }
    file.n_cut += is_cut ? 1 : 0;
    const bool learns = !samples.empty() && std::all_of(samples.begin(), samples.end(),
                                                        [](const Sample& sample) { return sample.n_learned() > 0; });
    if (!learns) throw BadInput(where, "there is nothing to learn{}", is_cut ? " within train.seq_len ids" : "");
    file.lines.push_back(std::move(samples));
  });
  if (file.lines.empty()) throw BadInput(path, "expected a line of at most {} ids, got none", options.longest);
  return file;
}

}  // namespace vitrine
