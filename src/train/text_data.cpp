#include "train/text_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/fingerprint.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {
namespace {

const std::vector<std::string>& names_of(const ModelConfig& model) {
  static const std::vector<std::string> none;
  return model.task ? model.task->labels : none;
}

std::int64_t ids_of(const TextExample& example) {
  std::int64_t n = 0;
  for (const EncodedText& piece : example.pieces) n += std::ssize(piece.ids);
  return n;
}

/// What the folder's steps make of a text.
TextResult result_of(const SentenceConfig& sentences, const ModelConfig& model, const std::string& path) {
  const std::vector<TextStep>& steps = sentences.steps.steps;
  const std::int64_t width = vector_width(sentences.steps, model.d_model, model.vocab_size);
  const auto* const words = steps.empty() ? nullptr : std::get_if<SpladeStep>(&steps.front());
  if (sentences.is_sparse() && words != nullptr && steps.size() == 1) return {.width = width, .words = *words};
  const bool has_vectors = sentences.steps.source == TextSteps::Source::rows && !sentences.reading.is_table &&
                           sentences.result() == TextValue::vector;
  if (has_vectors) return {.has_vectors = true, .width = width};
  throw Unsupported(path, "expected a vector of each text, from its rows or by SpladePooling, to learn from");
}

}  // namespace

TextExample encode_example(const TextObjective& o, const std::vector<std::string>& names, const TextEncoder& encoder,
                           const TextLine& line, const std::string& where) {
  TextExample example;
  example.labels = labels_of(o, names, line, where);
  const std::vector<std::string>& texts = line.texts;
  if (o.task == LearnedTask::tag) {
    std::vector<std::int64_t> first_rows;
    example.pieces.push_back(encoder.words(texts, first_rows));
    std::vector<double> tags(example.pieces[0].ids.size(), -100);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (first_rows[i] >= 0) tags[static_cast<std::size_t>(first_rows[i])] = example.labels[i];
    }
    example.labels = std::move(tags);
    example.is_tagged = true;
  } else if (o.task == LearnedTask::classify) {
    example.pieces.push_back(texts.size() > 1 ? encoder.pair(texts[0], texts[1]) : encoder.text(texts[0]));
  } else if (o.task == LearnedTask::rerank) {
    for (std::size_t i = 1; i < texts.size(); ++i) example.pieces.push_back(encoder.pair(texts[0], texts[i]));
  } else {
    for (const std::string& text : texts) example.pieces.push_back(encoder.text(text));
  }
  for (const EncodedText& piece : example.pieces) {
    if (piece.ids.empty()) throw BadInput(where, "expected a text that has tokens, got an empty one");
  }
  return example;
}

void append_example(const TextExample& example, Batch& batch) {
  batch.is_ragged = true;
  batch.examples.push_back({std::ssize(batch.pieces), std::ssize(example.pieces), example.labels});
  for (const EncodedText& piece : example.pieces) {
    const std::size_t first = batch.inputs.size(), n = piece.ids.size();
    batch.pieces.push_back({static_cast<std::int64_t>(first), static_cast<std::int64_t>(n)});
    batch.inputs.insert(batch.inputs.end(), piece.ids.begin(), piece.ids.end());
    if (!piece.types.empty() || !batch.types.empty()) {
      batch.types.resize(first);
      batch.types.insert(batch.types.end(), piece.types.begin(), piece.types.end());
      batch.types.resize(first + n);
    }
    batch.targets.resize(first + n);
    batch.counts.resize(first + n);
  }
  // What counts is the example; of a tagger, its tags.
  const auto& piece = batch.pieces[static_cast<std::size_t>(batch.examples.back().first_piece)];
  const auto first = static_cast<std::size_t>(piece.first_row);
  if (!example.is_tagged) batch.counts[first] = 1;
  for (std::size_t t = 0; t < example.labels.size() && example.is_tagged; ++t) {
    batch.counts[first + t] = example.labels[t] >= 0 ? 1 : 0;
  }
}

TextData::TextData(const TrainConfig& c, const ModelConfig& model, const std::string& tokenizer_path)
    : batch_(c.train.batch), seed_(c.train.seed), is_shuffled_(c.data.talk.is_shuffled) {
  if (tokenizer_path.empty()) throw BadInput("data.tokenizer", "the model has no tokenizer to read texts with");
  const auto tokenizer = load_tokenizer(tokenizer_path);
  const std::int64_t most = c.train.seq_len > 0 ? std::min(c.train.seq_len, model.max_seq_len) : model.max_seq_len;
  sentences_ = read_sentence_config(tokenizer_path, tokenizer.get(), most);
  if (sentences_.reading.is_chat) throw Unsupported(tokenizer_path, "texts in a chat template cannot be learned from");
  if (c.text->task == LearnedTask::embed) result_ = result_of(sentences_, model, tokenizer_path);
  objective_ = text_objective(*c.text, model, sentences_.is_sparse(), result_.width);
  info_.vocab_size = tokenizer->vocab_size();
  info_.fingerprint = tokenizer_fingerprint(*tokenizer);
  const TextEncoder encoder(*tokenizer, sentences_, model.embedding.n_types > 0 && sentences_.gives_types);
  training_ = read(c.data.texts, model, encoder);
  if (!c.data.validation.empty()) validation_ = read(c.data.validation, model, encoder);
  if (c.data.validation_fraction > 0) hold_out(c.data.validation_fraction, c.data.texts);
  Fingerprint f;
  for (const TextExample& example : training_.examples) {
    for (const EncodedText& piece : example.pieces) {
      f.add(std::as_bytes(std::span(piece.ids)));
      f.add(std::as_bytes(std::span(piece.types)));
    }
    f.add(std::as_bytes(std::span(example.labels)));
  }
  fingerprint_ = f.value();
}

TextData::File TextData::read(const std::string& path, const ModelConfig& model, const TextEncoder& encoder) const {
  File file;
  for_each_text_line(objective_.task, path, [&](const TextLine& line, const std::string& where) {
    TextExample example = encode_example(objective_, names_of(model), encoder, line, where);
    const auto n_pieces = std::ssize(example.pieces);
    for (const EncodedText& piece : example.pieces) {
      file.n_cut += piece.is_cut ? 1 : 0;
      file.longest = std::max<std::int64_t>(file.longest, std::ssize(piece.ids));
      const std::int32_t highest = *std::max_element(piece.ids.begin(), piece.ids.end());
      if (highest < model.vocab_size) continue;
      throw BadInput(where, "the tokenizer makes id {}, but the model has only {} tokens", highest, model.vocab_size);
    }
    const bool is_ragged = !file.examples.empty() && std::ssize(file.examples[0].pieces) != n_pieces;
    if (is_ragged && objective_.task == LearnedTask::embed) {
      throw BadInput(where, "expected {} texts, as the first line has, got {}", file.examples[0].pieces.size(),
                     n_pieces);
    }
    file.n_ids += ids_of(example);
    file.most_pieces = std::max<std::int64_t>(file.most_pieces, n_pieces);
    file.examples.push_back(std::move(example));
  });
  return file;
}

/// The last lines are for validation.
void TextData::hold_out(double fraction, const std::string& path) {
  const std::size_t n = training_.examples.size();
  const auto held_out = static_cast<std::size_t>(std::ceil(static_cast<double>(n) * fraction));
  if (held_out >= n) throw BadInput(path, "expected at least two lines to hold out some, got {}", n);
  const auto first = training_.examples.end() - static_cast<std::ptrdiff_t>(held_out);
  std::move(first, training_.examples.end(), std::back_inserter(validation_.examples));
  training_.examples.erase(first, training_.examples.end());
  for (const TextExample& example : validation_.examples) training_.n_ids -= ids_of(example);
}

std::string TextData::plan(double epochs) const {
  std::string text =
      fmt::format("texts: {:.2f} epochs of {} lines with {} ids", epochs, training_.examples.size(), training_.n_ids);
  const std::int64_t n_cut = training_.n_cut + validation_.n_cut;
  if (n_cut > 0) text += fmt::format("; {} longer texts were cut to {} ids", n_cut, sentences_.max_tokens);
  return text;
}

Batch TextData::batch(std::int64_t step) const {
  Batch result;
  const auto n = static_cast<std::int64_t>(training_.examples.size());
  for (std::int64_t sample = step * batch_; sample < (step + 1) * batch_; ++sample) {
    std::int64_t line = sample % n;
    if (is_shuffled_) {
      line = static_cast<std::int64_t>(permuted(static_cast<std::uint64_t>(line), static_cast<std::uint64_t>(n), seed_,
                                                static_cast<std::uint64_t>(sample / n)));
    }
    append_example(training_.examples[static_cast<std::size_t>(line)], result);
  }
  return result;
}

std::int64_t TextData::validation_batches() const {
  return (static_cast<std::int64_t>(validation_.examples.size()) + batch_ - 1) / batch_;
}

Batch TextData::validation_batch(std::int64_t index) const {
  Batch result;
  const auto n = static_cast<std::int64_t>(validation_.examples.size());
  for (std::int64_t line = index * batch_; line < std::min((index + 1) * batch_, n); ++line) {
    append_example(validation_.examples[static_cast<std::size_t>(line)], result);
  }
  return result;
}

}  // namespace vitrine
