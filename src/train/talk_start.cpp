#include "train/talk_start.h"

#include <algorithm>
#include <cmath>

#include "train/references.h"

namespace vitrine {

std::shared_ptr<const ConversationData> open_talk(Ranks& ranks, TrainConfig& c, const RunFolder* folder,
                                                  std::optional<std::int64_t> resumed) {
  if (!c.data.is_talk()) return nullptr;
  ranks.together([&] {
    if (!c.data.talk.now.empty() || !resumed || folder == nullptr) return;
    const Json& fixed = folder->read_state(*resumed).words.fixed;
    if (fixed.contains("now") && fixed["now"].is_string()) c.data.talk.now = fixed["now"].get<std::string>();
  });
  if (c.data.talk.now.empty()) c.data.talk.now = current_time();
  c.data.talk.now = ranks.broadcast(c.data.talk.now);
  auto talk = ranks.together([&] { return std::make_shared<const ConversationData>(c); });
  if (c.train.epochs > 0) {
    const double steps = std::ceil(c.train.epochs * talk->samples_per_epoch() / static_cast<double>(c.train.batch));
    c.train.steps = c.schedule.steps = static_cast<std::int64_t>(std::min(steps, 1e12));
    validate(c.schedule);
  }
  return talk;
}

void prefer_pairs(Ranks& ranks, const TrainConfig& c, const ConversationData& talk, Learner& learner, bool resumes,
                  const std::function<void(const std::string&)>& tell) {
  std::vector<PairScore> references;
  if (c.preference.has_reference()) {
    const std::string path = c.out + "/reference.json";
    learner.at_first([&] {
      if (resumes) {
        references = read_references(path, talk.n_lines());
        return;
      }
      tell("the reference scores all pairs");
      const bool with_adapter = c.preference.reference == PreferenceOptions::Reference::start;
      references = talk.score_all([&](const Batch& batch) { return learner.score_answers(batch, with_adapter); });
      write_references(path, references);
    });
    references.resize(static_cast<std::size_t>(talk.n_lines()));
    ranks.broadcast(std::as_writable_bytes(std::span(references)));
  }
  learner.prefer(c.preference, std::move(references));
}

}  // namespace vitrine
