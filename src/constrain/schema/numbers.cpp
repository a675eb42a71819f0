// A number is read digit by digit. Its state knows how the digits so far compare with those of each bound, and the
// remainder of the digits so far for `multipleOf`.
#include "constrain/schema/numbers.h"

#include <algorithm>
#include <compare>
#include <map>
#include <tuple>

#include "base/error.h"

namespace vitrine::constrain {
namespace {

constexpr int kMaxWholeDigits = 16, kMaxFractionDigits = 16;
constexpr std::size_t kMaxNumberStates = 100'000;

/// What has been read: "-", up to 16 digits, ".", up to 16 digits.
struct Place {
  enum class Part : std::uint8_t { begin, sign, zero, whole, point, fraction };
  Part part = Part::begin;
  bool negative = false;
  bool is_zero = true;
  std::int8_t n_digits = 0;                // of the part
  std::vector<std::int8_t> comparisons{};  // by bound: how the digits compare with as many of the bound's digits
  std::vector<std::int64_t> rests{};       // by multiple
  auto key() const { return std::tie(part, negative, is_zero, n_digits, comparisons, rests); }
  bool operator<(const Place& other) const { return key() < other.key(); }
};

class NumberAutomaton {
 public:
  NumberAutomaton(Grammar& grammar, const NumberLimits& limits, std::string_view where)
      : grammar_(grammar), limits_(limits), where_(where) {
    if (limits.min) bounds_.push_back(*limits.min);
    if (limits.max) bounds_.push_back(*limits.max);
    for (const Decimal& unit : limits.multiples_of) add_multiple(unit);
  }

  Expr build() {
    Place begin;
    begin.comparisons.assign(bounds_.size(), 0);
    begin.rests.assign(multiples_.size(), 0);
    state_of(begin);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Place here = places_[i];
      graph_.accepts.push_back(accepts(here));
      if (here.part == Place::Part::begin) step(here, '-');
      if (has_point(here)) step(here, '.');
      for (char digit = '0'; digit <= '9'; ++digit) step(here, digit);
    }
    graph_.n_states = static_cast<std::int32_t>(places_.size());
    prune();
    return grammar_.graph(std::move(graph_));
  }

 private:
  struct Multiple {
    std::int64_t unit;  // the multiple times 10^places
    int places;
  };

  void add_multiple(const Decimal& unit) {
    const std::int64_t last = unit.exponent - static_cast<std::int64_t>(unit.digits.size());
    Multiple m{0, static_cast<int>(std::max<std::int64_t>(-last, 0))};
    std::string digits = unit.digits;
    if (last > 0) digits.append(static_cast<std::size_t>(std::min<std::int64_t>(last, 10)), '0');
    constexpr std::size_t kMaxDigits = 5;
    if (digits.size() > kMaxDigits || m.places > kMaxFractionDigits) {
      throw Unsupported(where_, "a multipleOf with more than {} digits is not supported", kMaxDigits);
    }
    m.unit = std::stoll(digits);
    multiples_.push_back(m);
  }

  std::int32_t state_of(const Place& place) {
    const auto [known, is_new] = known_.try_emplace(place, static_cast<std::int32_t>(places_.size()));
    if (is_new) places_.push_back(place);
    if (places_.size() > kMaxNumberStates) {
      throw Unsupported(where_, "multipleOf with these bounds needs more than {} states", kMaxNumberStates);
    }
    return known->second;
  }

  bool has_point(const Place& p) const {
    return !limits_.is_integer && (p.part == Place::Part::zero || p.part == Place::Part::whole);
  }

  void step(const Place& here, char c) {
    Place next = here;
    if (c == '-') {
      next.part = Place::Part::sign;
      next.negative = true;
    } else if (c == '.') {
      next.part = Place::Part::point;
      next.n_digits = 0;
      end_whole(here, next);
    } else if (!read_digit(next, c)) {
      return;
    }
    const std::int32_t from = known_.at(here);
    graph_.edges.push_back({from, label(c), state_of(next)});
  }

  Expr label(char c) {
    const auto [known, is_new] = labels_.try_emplace(c, -1);
    if (is_new) known->second = grammar_.set(CharSet::of(static_cast<std::uint32_t>(c)));
    return known->second;
  }

  /// Changes the place by a digit. Returns false if none may follow.
  bool read_digit(Place& p, char c) {
    switch (p.part) {
      case Place::Part::begin:
      case Place::Part::sign:
        p.part = c == '0' ? Place::Part::zero : Place::Part::whole;
        break;
      case Place::Part::zero:
        return false;
      case Place::Part::whole:
        if (p.n_digits == kMaxWholeDigits) return false;
        break;
      case Place::Part::point:
        p.part = Place::Part::fraction;
        break;
      case Place::Part::fraction:
        if (p.n_digits == kMaxFractionDigits) return false;
        break;
    }
    p.n_digits = static_cast<std::int8_t>(p.n_digits + 1);
    p.is_zero &= c == '0';
    for (std::size_t b = 0; b < bounds_.size(); ++b) compare_digit(p, b, c);
    for (std::size_t m = 0; m < multiples_.size(); ++m) {
      if (!read_rest(p, m, c)) return false;
    }
    return true;
  }

  void compare_digit(Place& p, std::size_t b, char c) const {
    std::int8_t& order = p.comparisons[b];
    if (order != 0) return;
    const Decimal& bound = bounds_[b].value;
    // Whole digits are compared from the bound's first one on; which of the two has more is known at their end.
    const std::int64_t place =
        p.part == Place::Part::fraction ? -p.n_digits : std::max<std::int64_t>(bound.exponent, 1) - p.n_digits;
    const char digit = p.part != Place::Part::fraction && place < 0 ? '0' : bound.digit(place);
    order = static_cast<std::int8_t>(c < digit ? -1 : c > digit ? 1 : 0);
  }

  /// At the end of the whole digits: more digits are larger.
  void end_whole(const Place& p, Place& next) const {
    for (std::size_t b = 0; b < bounds_.size(); ++b) {
      const std::int64_t n = std::max<std::int64_t>(bounds_[b].value.exponent, 1);
      if (p.n_digits != n) next.comparisons[b] = p.n_digits < n ? -1 : 1;
    }
  }

  bool read_rest(Place& p, std::size_t m, char c) const {
    std::int64_t& rest = p.rests[m];
    const Multiple& multiple = multiples_[m];
    if (p.part == Place::Part::fraction && p.n_digits > multiple.places) return c == '0' && rest == 0;
    rest = (rest * 10 + (c - '0')) % multiple.unit;
    return true;
  }

  bool accepts(const Place& p) const {
    using Part = Place::Part;
    if (p.part != Part::zero && p.part != Part::whole && p.part != Part::fraction) return false;
    if (p.negative && p.part == Part::zero) return false;  // "-0"
    Place end = p;
    if (p.part != Part::fraction) end_whole(p, end);
    for (std::size_t m = 0; m < multiples_.size(); ++m) {
      std::int64_t rest = p.rests[m];
      const int n_read = p.part == Part::fraction ? std::min<int>(p.n_digits, multiples_[m].places) : 0;
      for (int i = n_read; i < multiples_[m].places; ++i) rest = rest * 10 % multiples_[m].unit;
      if (rest != 0) return false;
    }
    const int n_fraction = p.part == Part::fraction ? p.n_digits : 0;
    for (std::size_t b = 0; b < bounds_.size(); ++b) {
      const bool is_min = limits_.min && b == 0;
      const int order = order_of(p, end.comparisons[b], bounds_[b].value, n_fraction);
      if (order == 0 ? bounds_[b].excluded : is_min ? order < 0 : order > 0) return false;
    }
    return true;
  }

  /// How the whole number compares with a bound, given how their digits compare.
  static int order_of(const Place& p, int order, const Decimal& bound, int n_fraction) {
    const bool negative = p.negative && !p.is_zero;
    if (bound.is_zero()) return p.is_zero ? 0 : negative ? -1 : 1;
    if (negative != bound.negative) return negative ? -1 : 1;
    // The bound may have more digits than the number.
    const std::int64_t n_bound = static_cast<std::int64_t>(bound.digits.size()) - bound.exponent;
    if (order == 0 && n_bound > n_fraction) order = -1;
    return negative ? -order : order;
  }

  /// Removes the edges to states from which no state accepts.
  void prune() {
    std::vector<std::vector<std::int32_t>> sources(places_.size());
    for (const Graph::Edge& e : graph_.edges) sources[static_cast<std::size_t>(e.to)].push_back(e.from);
    std::vector<bool> leads(graph_.accepts);
    std::vector<std::size_t> pending;
    for (std::size_t s = 0; s < leads.size(); ++s) {
      if (leads[s]) pending.push_back(s);
    }
    while (!pending.empty()) {
      const std::size_t s = pending.back();
      pending.pop_back();
      for (const std::int32_t from : sources[s]) {
        if (leads[static_cast<std::size_t>(from)]) continue;
        leads[static_cast<std::size_t>(from)] = true;
        pending.push_back(static_cast<std::size_t>(from));
      }
    }
    std::erase_if(graph_.edges, [&](const Graph::Edge& e) { return !leads[static_cast<std::size_t>(e.to)]; });
  }

  Grammar& grammar_;
  const NumberLimits& limits_;
  std::string_view where_;
  std::vector<Bound> bounds_;
  std::vector<Multiple> multiples_;
  std::map<Place, std::int32_t> known_;
  std::vector<Place> places_;
  std::map<char, Expr> labels_;
  Graph graph_;
};

}  // namespace

bool NumberLimits::allows(const Decimal& value) const {
  if (is_integer && !value.is_integer()) return false;
  if (min && (min->excluded ? compare(value, min->value) <= 0 : compare(value, min->value) < 0)) return false;
  if (max && (max->excluded ? compare(value, max->value) >= 0 : compare(value, max->value) > 0)) return false;
  return std::all_of(multiples_of.begin(), multiples_of.end(),
                     [&](const Decimal& unit) { return is_multiple(value, unit); });
}

bool NumberLimits::is_empty() const {
  if (!min || !max) return false;
  const auto order = compare(min->value, max->value);
  return order > 0 || (order == 0 && (min->excluded || max->excluded));
}

void NumberLimits::raise_min(const Bound& bound) {
  const auto order = min ? compare(bound.value, min->value) : std::strong_ordering::greater;
  if (order > 0 || (order == 0 && bound.excluded)) min = bound;
}

void NumberLimits::lower_max(const Bound& bound) {
  const auto order = max ? compare(bound.value, max->value) : std::strong_ordering::less;
  if (order < 0 || (order == 0 && bound.excluded)) max = bound;
}

Expr limited_number(Grammar& grammar, const NumberLimits& limits, std::string_view where) {
  return NumberAutomaton(grammar, limits, where).build();
}

}  // namespace vitrine::constrain
