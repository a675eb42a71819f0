#include "ops/describe.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace vitrine {

const OpDescription& description_of(OpKind kind) {
  static constexpr OpDescription kNone{};
#define VITRINE_ADDRESS(name) &name##_op,
  static constexpr const OpDescription* kDescribed[] = {VITRINE_DESCRIBED_OPS(VITRINE_ADDRESS)};
#undef VITRINE_ADDRESS
  const auto i = static_cast<std::size_t>(kind);
  return i < std::size(kDescribed) ? *kDescribed[i] : kNone;
}

std::string Formula::of(const OpView& v) const {
  std::string text = write_ != nullptr ? write_(v) : std::string(holds_ == nullptr || holds_(v) ? text_ : otherwise_);
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at)) {
    const char of = text[at + 1];
    const std::vector<Operand>& all = v.trace.operands;
    text.replace(at, 2, symbol(of == 'y' ? all[v.op.output].name : all[v.op.inputs[of == 'a' ? 0 : 1]].last_name));
  }
  return text;
}

OpDescription::Elements same_element(const OpView& v, std::int64_t flat) {
  OpDescription::Elements elements;
  for (std::size_t k = 0; k < v.op.inputs.size(); ++k) elements.push_back(of_input(k, flat));
  return elements;
}

Cell passed_on(const OpView& v, std::size_t, std::int64_t flat) { return Arithmetic(v.gradient()[flat]); }

Cell softmax_at(const Seen& x, std::int64_t i) {
  constexpr float kSafe = 20;  // above it, the maximum is subtracted, as in the op
  const std::int64_t n = x.last_size(), first = i / n * n;
  if (std::isinf(x[i])) return std::nullopt;
  const float largest = *std::max_element(x.values.begin() + first, x.values.begin() + first + n);
  const auto part = [&](std::int64_t at) {
    return exponential(std::abs(largest) > kSafe ? Arithmetic(x[at]) - Arithmetic(largest) : Arithmetic(x[at]));
  };
  std::vector<Arithmetic> parts;
  for (std::int64_t at = first; at < first + n; ++at) {
    if (!std::isinf(x[at])) parts.push_back(part(at));
  }
  return part(i) / sum_of(parts);
}

Cell softmax_cell(const OpView& v, std::int64_t flat) { return softmax_at(v.input(0), flat); }

Cell softmax_gradient_cell(const OpView& v, std::size_t, std::int64_t i) {
  const Seen &p = v.output(), &dp = v.gradient();
  const std::int64_t n = p.last_size(), first = i / n * n;
  return Arithmetic(p[i]) * (Arithmetic(dp[i]) - dot(v, p, first, 1, dp, first, 1, n));
}

Arithmetic whole(std::int64_t n) { return {static_cast<double>(n), std::to_string(n)}; }
Arithmetic exponential(const Arithmetic& x) { return function("exp", math::exp, x); }

std::string symbol(const std::string& site) {
  if (site.empty()) return "x";
  const std::size_t hook = site.rfind("hook_");
  const std::string word = site.substr(hook == std::string::npos ? site.rfind('.') + 1 : hook + 5);
  return word.find('_') == std::string::npos ? word : "\"" + word + "\"";
}

Arithmetic dot(const OpView& v, const Seen& x, std::int64_t x_first, std::int64_t x_step, const Seen& w,
               std::int64_t w_first, std::int64_t w_step, std::int64_t n) {
  std::vector<Arithmetic> terms;
  std::size_t written = 0;
  std::int64_t i = 0;
  for (; i < n && written <= v.trace.max_text; ++i) {
    const float factor = x[x_first + i * x_step];
    if (factor == 0 && (!terms.empty() || i + 1 < n)) continue;
    terms.push_back(Arithmetic(factor) * Arithmetic(w[w_first + i * w_step]));
    written += terms.back().text().size();
  }
  Arithmetic sum = sum_of(terms);
  for (; i < n; ++i) {
    const float factor = x[x_first + i * x_step];
    if (factor != 0) sum.add_unwritten(static_cast<double>(factor) * w[w_first + i * w_step]);
  }
  return sum;
}

}  // namespace vitrine
