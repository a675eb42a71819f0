#include "inspect/write_feature_index.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/mapped_file.h"
#include "inspect/logit_weights.h"

namespace vitrine {
namespace {

/// A tensor that is written number by number.
template <class T>
class Column {
 public:
  Column(SafetensorsWriter& to, const std::string& name, const char* type, const std::vector<std::int64_t>& shape)
      : to_(to) {
    to.begin_bytes(name, type, sizeof(T), shape);
  }
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;
  void add(T number) {
    numbers_.push_back(number);
    if (numbers_.size() == kNumbersAtOnce) finish();
  }
  void finish() {
    to_.append(std::as_bytes(std::span(numbers_)));
    numbers_.clear();
  }

 private:
  static constexpr std::size_t kNumbersAtOnce = 4096;
  SafetensorsWriter& to_;
  std::vector<T> numbers_;
};

/// The contexts that were kept, in a mapped file.
class Contexts {
 public:
  Contexts(const FeatureRecords& records, const std::string& path) : records_(records) {
    for (std::int64_t f = 0; f < records.d_sae(); ++f) n_ += std::ssize(records.offsets(f));
    if (n_ > 0) file_ = MappedFile::open(path);  // an empty file has nothing to map
    each([&](float, const StoredContext& context, const std::byte*) {
      n_values_ += context.count;
      starts_.push_back(context.start);
      if (starts_.size() >= kStartsAtOnce && starts_.size() >= 2 * n_distinct_) make_distinct();
    });
    make_distinct();
  }

  std::int64_t size() const { return n_; }
  std::int64_t n_values() const { return n_values_; }
  const std::vector<std::int64_t>& starts() const { return starts_; }  ///< Of the windows, ascending.

  /// Calls body(max, context, activations) for each, feature by feature.
  template <class Body>
  void each(Body&& body) const {
    for (std::int64_t f = 0; f < records_.d_sae(); ++f) {
      const std::span<const float> maxima = records_.maxima(f);
      const std::span<const std::int64_t> offsets = records_.offsets(f);
      for (std::size_t i = 0; i < maxima.size(); ++i) {
        const std::byte* const at = stored(offsets[i]);
        StoredContext context;
        std::memcpy(&context, at, sizeof(context));
        body(maxima[i], context, at + sizeof(context));
      }
    }
  }

 private:
  static constexpr std::size_t kStartsAtOnce = std::size_t{1} << 20;

  const std::byte* stored(std::int64_t offset) const {
    constexpr auto kHead = static_cast<std::int64_t>(sizeof(StoredContext));
    constexpr auto kEach = static_cast<std::int64_t>(sizeof(SparseValue));
    const std::int64_t size = std::ssize(file_->bytes());
    StoredContext context;
    const bool has_head = offset >= 0 && offset <= size - kHead;
    if (has_head) std::memcpy(&context, file_->bytes().data() + offset, sizeof(context));
    if (!has_head || context.count < 1 || context.count > (size - offset - kHead) / kEach) {
      throw BadCheckpoint(file_->path(), "expected a context at byte {} of {}", offset, size);
    }
    return file_->bytes().data() + offset;
  }
  void make_distinct() {
    std::ranges::sort(starts_);
    starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());
    n_distinct_ = starts_.size();
  }

  const FeatureRecords& records_;
  std::shared_ptr<const MappedFile> file_;
  std::int64_t n_ = 0, n_values_ = 0;
  std::vector<std::int64_t> starts_;
  std::size_t n_distinct_ = 0;
};

void write_features(SafetensorsWriter& to, const FeatureRecords& records) {
  const std::int64_t n = records.d_sae();
  Column<std::int64_t> n_active(to, "n_active", "I64", {n});
  for (std::int64_t f = 0; f < n; ++f) n_active.add(records.n_active(f));
  n_active.finish();
  Column<std::int64_t> indptr(to, "contexts.indptr", "I64", {n + 1});
  std::int64_t end = 0;
  indptr.add(0);
  for (std::int64_t f = 0; f < n; ++f) indptr.add(end += std::ssize(records.offsets(f)));
  indptr.finish();
}

void write_contexts(SafetensorsWriter& to, const Contexts& contexts) {
  const std::int64_t n = contexts.size();
  /// One tensor, of what `value` makes of each context.
  const auto column = [&]<class T>(const char* name, const char* type, std::int64_t count, T first, auto value) {
    Column<T> all(to, name, type, {count});
    if (count > n) all.add(first);
    contexts.each([&](float max, const StoredContext& context, const std::byte*) { all.add(value(max, context)); });
    all.finish();
  };
  const auto window_of = [&](float, const StoredContext& context) {
    return static_cast<std::int32_t>(std::ranges::lower_bound(contexts.starts(), context.start) -
                                     contexts.starts().begin());
  };
  std::int64_t end = 0;
  column("contexts.values_indptr", "I64", n + 1, std::int64_t{0},
         [&](float, const StoredContext& context) { return end += context.count; });
  column("contexts.max", "F32", n, 0.0f, [](float max, const StoredContext&) { return max; });
  column("contexts.position", "I32", n, 0, [](float, const StoredContext& context) { return context.position; });
  column("contexts.window", "I32", n, 0, window_of);
  const auto values = [&]<class T>(const char* name, const char* type, T SparseValue::*member) {
    Column<T> all(to, name, type, {contexts.n_values()});
    contexts.each([&](float, const StoredContext& context, const std::byte* at) {
      for (std::int32_t i = 0; i < context.count; ++i, at += sizeof(SparseValue)) {
        SparseValue value;
        std::memcpy(&value, at, sizeof(value));
        all.add(value.*member);
      }
    });
    all.finish();
  };
  values("values.position", "I32", &SparseValue::index);
  values("values.value", "F32", &SparseValue::value);
}

void write_windows(SafetensorsWriter& to, const std::vector<std::int64_t>& starts, const IndexFacts& facts) {
  to.add("windows.start", std::span(starts));
  std::int64_t end = 0;
  Column<std::int64_t> indptr(to, "windows.indptr", "I64", {std::ssize(starts) + 1});
  indptr.add(0);
  for (const std::int64_t start : starts) indptr.add(end += std::ssize(facts.ids_at(start)));
  indptr.finish();
  Column<std::int32_t> ids(to, "windows.ids", "I32", {end});
  for (const std::int64_t start : starts) {
    for (const std::int32_t id : facts.ids_at(start)) ids.add(id);
  }
  ids.finish();
}

void write_logits(SafetensorsWriter& to, std::int64_t d_sae, const std::string& path) {
  const auto file = MappedFile::open(path);
  constexpr std::int64_t k = kIndexLogits;
  const std::int64_t n = d_sae * 2 * k;
  if (std::ssize(file->bytes()) != n * static_cast<std::int64_t>(sizeof(LogitWeight))) {
    throw BadCheckpoint(path, "expected the logits of {} features, got {} bytes", d_sae, file->bytes().size());
  }
  const auto column = [&]<class T>(const char* name, const char* type, T LogitWeight::*member) {
    Column<T> all(to, name, type, {d_sae, 2, k});
    for (std::int64_t i = 0; i < n; ++i) {
      LogitWeight weight;
      std::memcpy(&weight, file->bytes().data() + static_cast<std::size_t>(i) * sizeof(weight), sizeof(weight));
      all.add(weight.*member);
    }
    all.finish();
  };
  column("logits.ids", "I32", &LogitWeight::id);
  column("logits.weights", "F32", &LogitWeight::weight);
}

void write_texts(SafetensorsWriter& to, const std::vector<std::string>& texts) {
  std::int64_t end = 0;
  Column<std::int64_t> indptr(to, "texts.indptr", "I64", {std::ssize(texts) + 1});
  indptr.add(0);
  for (const std::string& text : texts) indptr.add(end += std::ssize(text));
  indptr.finish();
  to.begin_bytes("texts.bytes", "U8", 1, {end});
  for (const std::string& text : texts) to.append(std::as_bytes(std::span(text)));
}

}  // namespace

void write_feature_index(const std::string& path, const FeatureRecords& records, const IndexFacts& facts) {
  const Contexts contexts(records, facts.contexts_path);
  constexpr std::size_t kTensors = 18;
  const std::string about = facts.facts.dump();
  SafetensorsWriter to(path, header_bytes_for(kTensors) + 2 * std::ssize(about));  // in a text, quotes are escaped
  to.set_metadata("feature_index", about);
  write_features(to, records);
  to.add_rows("histogram.counts", records.histogram_counts(), ActivationHistogram::kBins);
  to.add("histogram.exponents", std::span(records.histogram_exponents()));
  write_contexts(to, contexts);
  write_windows(to, contexts.starts(), facts);
  if (!facts.logits_path.empty()) write_logits(to, records.d_sae(), facts.logits_path);
  if (!facts.texts.empty()) write_texts(to, facts.texts);
  to.commit();
}

}  // namespace vitrine
