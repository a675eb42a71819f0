#include "inspect/window_run.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "inspect/text_pass.h"

namespace vitrine {
namespace {

constexpr std::int64_t kGroupElements = std::int64_t{1} << 22;  // 16 MiB of logits

/// Keeps the last state of the stream, after what other taps and dictionaries make of it.
class LastStates : public Taps {
 public:
  LastStates(const GenerateContext& context, Taps* inner, std::vector<float>& to)
      : end_(stream_states(context.model->config(), false).back()), inner_(inner), to_(to) {
    for (const AppliedDictionary& applied : context.modifiers.dictionaries) {
      const bool changes = applied.use == DictionaryUse::error || applied.use == DictionaryUse::replace;
      if (changes && applied.dictionary->output == end_) {
        outputs_.push_back(applied.dictionary->at(DictionarySite::output));
      }
    }
  }

  bool wants(const SiteId& id) const override {
    return id == end_ || std::ranges::find(outputs_, id) != outputs_.end() || (inner_ != nullptr && inner_->wants(id));
  }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override {
    const Tensor result = inner_ != nullptr && inner_->wants(id) ? inner_->visit(pass, id, value) : value;
    if (id == end_) {
      to_.insert(to_.end(), result.data, result.data + result.count());
    } else if (std::ranges::find(outputs_, id) != outputs_.end()) {
      std::copy_n(result.data, result.count(), to_.end() - result.count());
    }
    return result;
  }
  bool wants_sparse(const SiteId& id) const override { return inner_ != nullptr && inner_->wants_sparse(id); }
  void visit_sparse(Pass& pass, const SiteId& id, const SparseRows& rows) override {
    inner_->visit_sparse(pass, id, rows);
  }
  std::optional<SiteId> last_wanted() const override { return end_; }

 private:
  SiteId end_;
  Taps* inner_;
  std::vector<float>& to_;
  std::vector<SiteId> outputs_{};  // of dictionaries that change the last state
};

}  // namespace

std::int64_t rows_of_logits_at_once(const ModelConfig& config) {
  return std::max<std::int64_t>(1, kGroupElements / config.vocab_size);
}

WindowRun::WindowRun(const GenerateContext& context, std::span<const std::int32_t> ids)
    : context_(context), ids_(ids), head_pass_(text_pass(context_, arena_, ids)) {}

void WindowRun::run(Taps* taps) {
  last_.clear();
  LastStates states(context_, taps, last_);
  context_.taps = &states;
  KvCache cache = context_.make_cache(std::ssize(ids_));
  for (std::int64_t first = 0; first < std::ssize(ids_); first += context_.chunk) {
    const std::int64_t n = std::min(context_.chunk, std::ssize(ids_) - first);
    Pass pass = context_.make_pass(arena_, {{0, n, first, &cache}});
    context_.forward(pass, ids_.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)));
    if (pass.segments.front().failure) throw error_of(*pass.segments.front().failure);
  }
  context_.taps = nullptr;
}

Tensor WindowRun::logits(std::int64_t first, std::int64_t n) {
  const std::int64_t d = std::ssize(last_) / std::ssize(ids_);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), first);
  return context_.model->head(head_pass_, {last_.data() + first * d, {n, d}}, numbers);
}

}  // namespace vitrine
