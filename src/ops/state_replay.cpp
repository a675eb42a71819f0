// A scan of the first tokens of a pass once more, from copies of its operands.
#include <algorithm>
#include <memory>

#include "ops/state_parts.h"

namespace vitrine {
namespace {

/// The vectors of the tokens of a segment.
struct KeptVectors {
  std::vector<float> values;
  std::int64_t stride = 0;

  KeptVectors(const TokenVectors& from, std::int64_t tokens) : stride(from.stride) {
    if (from.data != nullptr) values.assign(from.data, from.data + tokens * from.stride);
  }
  TokenVectors at(std::int64_t element) const {
    return values.empty() ? TokenVectors{} : TokenVectors{values.data() + element, stride};
  }
};

class StateReplay {
 public:
  /// `scan`: that of the first lane of the first head.
  StateReplay(const StateShape& shape, const StateScan& scan, const StateKernels& kernels)
      : shape_(shape),
        kernels_(&kernels),
        keys_(scan.keys, scan.tokens),
        values_(scan.values, scan.tokens),
        decays_(scan.decays, scan.tokens),
        betas_(scan.betas, scan.tokens),
        decayed_keys_(scan.decayed_keys, scan.tokens) {
    if (scan.rates != nullptr) rates_.assign(scan.rates, scan.rates + shape.rows * shape.lanes);
  }

  void run(std::int64_t tokens, std::span<const float> before, std::span<float> to) const {
    constexpr std::int64_t kRow = StateKernels::kLanes;
    std::vector<float> state(static_cast<std::size_t>(shape_.rows * kRow)), out(static_cast<std::size_t>(kRow));
    for (std::int64_t head = 0; head < shape_.heads; ++head) {
      for (std::int64_t lane = 0; lane < shape_.lanes; lane += kRow) {
        const int n = lanes_from(shape_, lane, StateKernels::kLanes);
        const std::int64_t offset = head * shape_.rows * shape_.lanes + lane;
        std::fill(state.begin(), state.end(), 0.0f);
        for (std::int64_t i = 0; i < shape_.rows && !before.empty(); ++i) {
          std::copy_n(before.data() + offset + i * shape_.lanes, n, state.data() + i * kRow);
        }
        kernels_->scan(operands(tokens, head, lane), n, state.data(), out.data(), 0);
        for (std::int64_t i = 0; i < shape_.rows; ++i) {
          std::copy_n(state.data() + i * kRow, n, to.data() + offset + i * shape_.lanes);
        }
      }
    }
  }

 private:
  /// As StateRun::operands(); the output, which is not needed, is that of the keys as queries.
  StateScan operands(std::int64_t tokens, std::int64_t head, std::int64_t lane) const {
    StateScan scan{tokens, shape_.rows, shape_.decay};
    scan.keys = scan.queries = keys_.at(shape_.group_of(head) * shape_.rows);
    scan.values = values_.at(head * shape_.lanes + lane);
    scan.betas = betas_.at(head);
    scan.decayed_keys = decayed_keys_.at(head * shape_.rows);
    const bool by_row = shape_.decay == StateDecay::row, by_element = shape_.decay == StateDecay::element;
    scan.decays = decays_.at(by_row ? head * shape_.rows : by_element ? lane : head);
    if (by_element) scan.rates = rates_.data() + lane;
    scan.rates_stride = shape_.lanes;
    return scan;
  }

  StateShape shape_;
  const StateKernels* kernels_;
  KeptVectors keys_, values_, decays_, betas_, decayed_keys_;
  std::vector<float> rates_;
};

}  // namespace

void StateRun::keep_replays() const {
  for (const Segment& s : segments()) {
    if (s.cache == nullptr || !s.cache->keeps_last_pass()) continue;
    const auto kept = std::make_shared<const StateReplay>(shape_, operands(s, 0, 0), p_.kernels.states);
    s.cache->set_replay(at_.layer, number_,
                        [kept](std::int64_t tokens, auto before, auto to) { kept->run(tokens, before, to); });
  }
}

}  // namespace vitrine
