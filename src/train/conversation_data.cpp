#include "train/conversation_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {
namespace {

/// FNV-1a (64 bit) of the ids and masks.
std::uint64_t fingerprint_of(const SampleFile& file) {
  std::uint64_t hash = 0xCBF29CE484222325;
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001B3; };
  for (const auto& samples : file.lines) {
    add(samples.size());
    for (const Sample& sample : samples) {
      add(sample.ids.size());
      for (std::size_t i = 0; i < sample.ids.size(); ++i) {
        add(static_cast<std::uint64_t>(sample.ids[i]) * 2 + sample.learned[i]);
      }
    }
  }
  return hash;
}

}  // namespace

std::string current_time() {
  const TemplateClock t = TemplateClock::now();
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", t.year, t.month, t.day, t.hour, t.minute, t.second);
}

void append_sample(const Sample& sample, Batch& batch) {
  const auto last = std::find(sample.learned.rbegin(), sample.learned.rend(), std::uint8_t{1});
  const auto n_inputs = std::max<std::ptrdiff_t>(sample.learned.rend() - last - 1, 0);
  batch.is_ragged = true;
  batch.pieces.push_back({static_cast<std::int64_t>(batch.inputs.size()), n_inputs});
  const auto copy = [&](const auto& from, auto& to) {
    to.insert(to.end(), from.begin() + 1, from.begin() + 1 + n_inputs);
  };
  batch.inputs.insert(batch.inputs.end(), sample.ids.begin(), sample.ids.begin() + n_inputs);
  copy(sample.ids, batch.targets);
  copy(sample.learned, batch.counts);
}

ConversationData::ConversationData(const TrainConfig& c)
    : batch_(c.train.batch),
      seed_(c.train.seed),
      is_shuffled_(c.data.talk.is_shuffled),
      is_pairs_(!c.data.pairs.empty()) {
  const TalkOptions& talk = c.data.talk;
  const std::string path = is_pairs_ ? c.data.pairs : c.data.conversations;
  const ConversationModel model =
      open_conversation_model({c.model.checkpoint, c.data.tokenizer, talk.chat_template, {}});
  const ConversationEncoder encoder(model, {talk.mask, talk.learn, TemplateClock::parse(talk.now)});
  info_.vocab_size = model.tokenizer->vocab_size();
  info_.fingerprint = tokenizer_fingerprint(*model.tokenizer);
  const SampleFileOptions options{is_pairs_, c.train.seq_len, talk.too_long};
  training_ = read_samples(path, encoder, options);
  if (!c.data.validation.empty()) validation_ = read_samples(c.data.validation, encoder, options);
  if (c.data.validation_fraction > 0) {
    const auto n = training_.lines.size();
    const auto held_out = static_cast<std::size_t>(std::ceil(static_cast<double>(n) * c.data.validation_fraction));
    if (held_out >= n) throw BadInput(path, "expected at least two lines to hold out some, got {}", n);
    const auto first = training_.lines.end() - static_cast<std::ptrdiff_t>(held_out);
    std::move(first, training_.lines.end(), std::back_inserter(validation_.lines));
    training_.lines.erase(first, training_.lines.end());
  }
  fingerprint_ = fingerprint_of(training_);
}

void ConversationData::check_with_model(const ModelConfig& model) const {
  if (model.encoder) throw Unsupported("data", "an encoder–decoder does not learn from conversations");
  for (const SampleFile* file : {&training_, &validation_}) {
    for (const auto& samples : file->lines) {
      for (const Sample& sample : samples) {
        const std::int32_t highest = *std::max_element(sample.ids.begin(), sample.ids.end());
        if (highest < model.vocab_size) continue;
        throw BadInput("data", "the tokenizer makes id {}, but the model has only {} tokens", highest,
                       model.vocab_size);
      }
    }
  }
}

std::string ConversationData::plan(double epochs) const {
  std::string text = fmt::format("{}: {:.2f} epochs of {} lines with {} ids", is_pairs_ ? "pairs" : "conversations",
                                 epochs, training_.lines.size(), training_.n_ids());
  const std::int64_t dropped = training_.n_dropped + validation_.n_dropped, n_cut = training_.n_cut + validation_.n_cut;
  if (dropped > 0) text += fmt::format("; {} longer lines were dropped", dropped);
  if (n_cut > 0) text += fmt::format("; {} longer lines were cut", n_cut);
  return text;
}

void ConversationData::append(const SampleFile& file, std::size_t line, std::int64_t number, Batch& batch) const {
  for (const Sample& sample : file.lines[line]) append_sample(sample, batch);
  if (is_pairs_) batch.pairs.push_back(number);
}

Batch ConversationData::batch(std::int64_t step) const {
  Batch result;
  const auto n = static_cast<std::int64_t>(training_.lines.size());
  for (std::int64_t sample = step * batch_; sample < (step + 1) * batch_; ++sample) {
    std::int64_t line = sample % n;
    if (is_shuffled_) {
      line = static_cast<std::int64_t>(permuted(static_cast<std::uint64_t>(line), static_cast<std::uint64_t>(n), seed_,
                                                static_cast<std::uint64_t>(sample / n)));
    }
    append(training_, static_cast<std::size_t>(line), line, result);
  }
  return result;
}

std::int64_t ConversationData::validation_batches() const {
  return (static_cast<std::int64_t>(validation_.lines.size()) + batch_ - 1) / batch_;
}

std::vector<PairScore> ConversationData::score_all(
    const std::function<std::vector<PairScore>(const Batch&)>& score) const {
  std::vector<PairScore> scores;
  const auto add = [&](const Batch& batch) {
    for (const PairScore& one : score(batch)) scores.push_back(one);
  };
  for (std::size_t line = 0; line < training_.lines.size(); ++line) {
    Batch batch;
    append(training_, line, static_cast<std::int64_t>(line), batch);
    add(batch);
  }
  for (std::int64_t i = 0; i < validation_batches(); ++i) add(validation_batch(i));
  return scores;
}

/// The pairs of the validation are numbered after those of the training.
Batch ConversationData::validation_batch(std::int64_t index) const {
  Batch result;
  const auto n = static_cast<std::int64_t>(validation_.lines.size());
  const auto n_training = static_cast<std::int64_t>(training_.lines.size());
  for (std::int64_t line = index * batch_; line < std::min((index + 1) * batch_, n); ++line) {
    append(validation_, static_cast<std::size_t>(line), n_training + line, result);
  }
  return result;
}

}  // namespace vitrine
