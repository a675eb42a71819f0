#include "inspect/stream_jacobian.h"

#include <algorithm>

#include "autograd/tape.h"
#include "base/error.h"
#include "inspect/text_pass.h"
#include "inspect/trained_lens.h"

namespace vitrine {
namespace {

/// Finds the stream after the last block, and receives the gradients of the streams that the later blocks read.
class JacobianTaps : public Taps {
 public:
  using Receive = std::function<void(std::size_t layer, const Tensor& gradient)>;

  JacobianTaps(const ModelConfig& config, Receive receive)
      : last_(stream_states(config, false).back()), receive_(std::move(receive)) {}

  bool wants(const SiteId& id) const override { return id == last_ || wants_gradient(id); }
  bool wants_gradient(const SiteId& id) const override {
    return id.layer > 0 && id == BlockSite{id.layer, last_.stack}(Site::resid_pre);
  }
  Tensor visit(Pass&, const SiteId& id, const Tensor& value) override {
    if (id == last_) value_ = value;
    return value;
  }
  void visit_gradient(Pass&, const SiteId& id, const Tensor& gradient) override {
    receive_(static_cast<std::size_t>(id.layer) - 1, gradient);  // the stream before a block is that after the last one
  }
  const Tensor& last() const { return value_; }

 private:
  SiteId last_;
  Receive receive_;
  Tensor value_{};
};

}  // namespace

void check_jacobian(const ModelConfig& config) {
  if (config.encoder || is_bidirectional(config)) {
    throw Unsupported("lens", "a Jacobian lens is of a model that reads a text from left to right");
  }
  if (config.altup) throw Unsupported("lens", "a Jacobian lens is of a model with one residual stream");
  mapped_states(LensKind::jacobian, config);  // for its error
  stream_states(config, false);               // the same
}

void add_jacobians(const GenerateContext& context, std::span<const std::int32_t> ids, const JacobianOptions& options,
                   std::span<const Tensor> to) {
  const std::int64_t n = std::ssize(ids), d = to.front().rows(), copies = std::min(options.copies, d);
  const std::int64_t n_valid = n - 1 - options.first;
  if (n_valid < 1) throw InternalError("lens", "expected at least {} tokens, got {}", options.first + 2, n);
  std::vector<std::int32_t> tokens;
  std::vector<Segment> segments;
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    segments.push_back({copy * n, n});
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  }
  Arena arena;
  Gradients none;
  Tape tape(none);
  Pass pass = context.make_pass(arena, std::move(segments));
  std::int64_t first_row = 0, n_rows = 0;  // of the Jacobians, in this replay
  JacobianTaps taps(context.model->config(), [&](std::size_t layer, const Tensor& gradient) {
    pass.for_rows(n_rows, n_valid * d, [&](std::int64_t copy) {
      std::vector<double> sums(static_cast<std::size_t>(d));
      for (std::int64_t t = options.first; t < n - 1; ++t) {
        const float* const row = gradient.row(copy * n + t);
        for (std::int64_t i = 0; i < d; ++i) sums[static_cast<std::size_t>(i)] += static_cast<double>(row[i]);
      }
      float* const row = to[layer].row(first_row + copy);
      for (std::int64_t i = 0; i < d; ++i) {
        row[i] += static_cast<float>(sums[static_cast<std::size_t>(i)] / static_cast<double>(n_valid));
      }
    });
  });
  pass.taps = &taps;
  pass.compute = Compute::f32;
  pass.training.tape = &tape;
  pass.training.begin = BlockSite{1, context.model->config().stack()}(Site::resid_pre);
  context.forward(pass, tokens);
  for (; first_row < d; first_row += n_rows) {
    pass.check_interrupt();
    n_rows = std::min(copies, d - first_row);
    const Tensor gradient = pass.grad(taps.last());
    for (std::int64_t copy = 0; copy < n_rows; ++copy) {
      for (std::int64_t t = options.first; t < n - 1; ++t) gradient.row(copy * n + t)[first_row + copy] = 1;
    }
    tape.replay();
  }
}

}  // namespace vitrine
