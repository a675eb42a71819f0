// Passes over a whole text, and the states of its residual stream.
#pragma once

#include <functional>
#include <vector>

#include "generate/context.h"

namespace vitrine {

/// A pass over a text in one segment, without a cache. It requests no logits. Throws BadInput for a text that is empty
/// or longer than the context, and for ids outside the vocabulary.
Pass text_pass(const GenerateContext& context, Arena& arena, const Tokens& tokens);

/// Taps that pass the values of a list of sites to a receiver.
class SiteReader : public Taps {
 public:
  using Receive = std::function<void(Pass&, const SiteId&, const Tensor&)>;

  SiteReader(std::vector<SiteId> sites, Receive receive) : sites_(std::move(sites)), receive_(std::move(receive)) {}
  bool wants(const SiteId& id) const override;
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value) override;
  std::optional<SiteId> last_wanted() const override;

 private:
  std::vector<SiteId> sites_;  // without segments
  Receive receive_;
};

/// The states of the stream of the model's own stack: its input, and the stream after each block; with `sublayers`,
/// also after each sublayer within a block. Where the sum of stream and sublayer is normalized, a state is the
/// normalized sum. The last one is the input of the final norm. Throws Unsupported for layers without a stream.
std::vector<SiteId> stream_states(const ModelConfig& config, bool sublayers);

}  // namespace vitrine
