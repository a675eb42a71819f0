#include "data/baselines.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/math.h"

namespace vitrine {
namespace {

constexpr std::int64_t kSearchGrain = 1024;

void check_ids(std::span<const std::int32_t> ids, std::int64_t vocab_size) {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      throw BadInput("baselines", "expected ids below the vocabulary's {}, got {}", vocab_size, id);
    }
  }
}

/// Sorts positions stably by the token `back` places before them; those without such a token come first.
void sort_by(std::span<const std::int32_t> ids, std::int64_t vocab_size, std::uint32_t back,
             const std::vector<std::uint32_t>& from, std::vector<std::uint32_t>& to) {
  std::vector<std::uint32_t> next(static_cast<std::size_t>(vocab_size) + 2);
  const auto bucket = [&](std::uint32_t position) {
    return position < back ? std::size_t{0} : static_cast<std::size_t>(ids[position - back]) + 1;
  };
  for (const std::uint32_t position : from) ++next[bucket(position) + 1];
  for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
  for (const std::uint32_t position : from) to[next[bucket(position)]++] = position;
}

}  // namespace

/// The k-grams of one order: runs of sorted_.
struct NgramCounts::Order {
  /// The tokens that follow one context.
  struct Context {
    std::uint32_t total = 0;
    std::array<std::uint32_t, 3> of_count{};  // tokens that follow with c = 1, 2, and 3 or more
  };

  std::vector<std::uint32_t> run_of;       // by position: its k-gram
  std::vector<std::uint32_t> counts;       // by k-gram: c
  std::vector<std::uint32_t> contexts_of;  // by position: its (k−1)-gram; empty for k = 1, whose context is one
  std::vector<Context> contexts;           // by (k−1)-gram
  std::array<double, 4> discount{};        // D(c) for c = 0, 1, 2, and 3 or more

  /// p_k from c, the context, and p_{k−1}.
  double probability(std::uint32_t c, const Context& h, double lower) const {
    if (h.total == 0) return lower;
    const auto total = static_cast<double>(h.total);
    double left = 0;
    for (std::size_t i = 0; i < 3; ++i) left += discount[i + 1] * static_cast<double>(h.of_count[i]);
    return (static_cast<double>(c) - discount[std::min(c, 3U)]) / total + left / total * lower;
  }

  void set_discounts(const std::array<double, 5>& n) {
    discount = {0, 0.5, 1, 1.5};
    if (n[1] == 0 || n[2] == 0 || n[3] == 0) return;
    const double y = n[1] / (n[1] + 2 * n[2]);
    const std::array<double, 4> d = {0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]};
    if (d[1] > 0 && d[2] > 0 && d[3] > 0) discount = d;
  }
};

NgramCounts::NgramCounts(std::span<const std::int32_t> ids, std::int64_t vocab_size)
    : ids_(ids), vocab_size_(vocab_size) {
  constexpr std::size_t kMax = (std::size_t{1} << 31) - 2;
  if (ids.empty() || ids.size() > kMax) throw BadInput("baselines", "expected 1 to {} ids, got {}", kMax, ids.size());
  check_ids(ids, vocab_size);
  std::vector<std::uint32_t> other(ids.size());
  sorted_.resize(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) sorted_[i] = static_cast<std::uint32_t>(i);
  for (int back = kMaxOrder - 1; back >= 0; --back) {
    sort_by(ids, vocab_size, static_cast<std::uint32_t>(back), sorted_, other);
    sorted_.swap(other);
  }
  shared_.resize(ids.size());
  for (std::size_t r = 1; r < sorted_.size(); ++r) {
    const std::uint32_t a = sorted_[r - 1], b = sorted_[r];
    std::uint8_t n = 0;
    while (n < kMaxOrder && has_kgram(a, n + 1) && has_kgram(b, n + 1) && ids_[a - n] == ids_[b - n]) ++n;
    shared_[r] = n;
  }
}

/// `contexts`: the run_of of order k − 1.
NgramCounts::Order NgramCounts::count(int k, bool is_highest, std::vector<std::uint32_t> contexts) const {
  Order order;
  order.run_of.resize(sorted_.size());
  for (std::size_t r = 0; r < sorted_.size(); ++r) {
    const bool is_new = r == 0 || shared_[r] < k, is_new_before = r == 0 || shared_[r] < k + 1;
    if (is_new) order.counts.push_back(0);
    order.run_of[sorted_[r]] = static_cast<std::uint32_t>(order.counts.size() - 1);
    const bool counts = is_highest ? has_kgram(sorted_[r], k) : is_new_before && has_kgram(sorted_[r], k + 1);
    if (counts) ++order.counts.back();
  }
  order.contexts_of = std::move(contexts);
  const std::uint32_t n_contexts =
      k == 1 ? 1 : *std::max_element(order.contexts_of.begin(), order.contexts_of.end()) + 1;
  order.contexts.resize(n_contexts);
  std::array<double, 5> of_count{};
  for (std::size_t r = 0; r < sorted_.size(); ++r) {
    const std::uint32_t position = sorted_[r], c = order.counts[order.run_of[position]];
    if ((r > 0 && shared_[r] >= k) || !has_kgram(position, k) || c == 0) continue;  // once for each k-gram
    Order::Context& context = order.contexts[k == 1 ? 0 : order.contexts_of[position - 1]];
    context.total += c;
    ++context.of_count[std::min(c, 3U) - 1];
    if (c <= 4) ++of_count[c];
  }
  order.set_discounts(of_count);
  return order;
}

double NgramCounts::cross_entropy(std::span<const std::int32_t> held_out, int order, ThreadPool& pool) const {
  if (order < 1 || order > kMaxOrder) throw InternalError("baselines", "there is no order {}", order);
  if (held_out.size() < 2) throw BadInput("baselines", "expected at least two held-out ids, got {}", held_out.size());
  check_ids(held_out, vocab_size_);
  /// The range of sorted_ with the k-gram that ends at a held-out token.
  struct Range {
    std::uint32_t begin, end;
  };
  std::vector<Range> ranges(held_out.size(), Range{0, static_cast<std::uint32_t>(sorted_.size())});
  std::vector<Range> before;  // of order k − 1
  std::vector<double> p(held_out.size(), 1 / static_cast<double>(vocab_size_));
  std::vector<std::uint32_t> runs;
  for (int k = 1; k <= order; ++k) {
    const Order counts = count(k, k == order, std::move(runs));
    before = ranges;
    const auto back = static_cast<std::uint32_t>(k - 1);
    pool.parallel_for(static_cast<std::int64_t>(held_out.size()), kSearchGrain,
                      [&](std::int64_t begin, std::int64_t end, int) {
                        for (auto j = static_cast<std::size_t>(begin); j < static_cast<std::size_t>(end); ++j) {
                          if (j < back) continue;  // no such k-gram: p of the shorter one remains
                          const std::int32_t id = held_out[j - back];
                          const auto is_less = [&](std::uint32_t position, std::int32_t bound) {
                            return position < back || ids_[position - back] < bound;
                          };
                          const auto first = sorted_.begin() + ranges[j].begin, last = sorted_.begin() + ranges[j].end;
                          const auto low = std::lower_bound(first, last, id, is_less),
                                     high = std::lower_bound(low, last, id + 1, is_less);
                          ranges[j] = {static_cast<std::uint32_t>(low - sorted_.begin()),
                                       static_cast<std::uint32_t>(high - sorted_.begin())};
                          const std::uint32_t c = low == high ? 0 : counts.counts[counts.run_of[*low]];
                          if (k > 1 && before[j - 1].begin == before[j - 1].end) continue;  // an unknown context
                          const std::size_t context = k == 1 ? 0 : counts.contexts_of[sorted_[before[j - 1].begin]];
                          p[j] = counts.probability(c, counts.contexts[context], p[j]);
                        }
                      });
    runs = counts.run_of;
  }
  double sum = 0;
  for (std::size_t j = 1; j < p.size(); ++j) sum -= math::log(p[j]);
  return sum / static_cast<double>(p.size() - 1);
}

}  // namespace vitrine
