// LFM2: gated short convolutions, and attention in some layers. Sources: Liquid AI 2025; transformers, models/lfm2; the
// published config.json files.
#include "base/error.h"
#include "checkpoint/hugging_face/family_parts.h"

namespace vitrine {
namespace {

ModelConfig read_lfm2(ConfigReader& c) {
  ModelConfig model = read_lfm2_decoder(c);
  const bool adjusts = c.flag_or("block_auto_adjust_ff_dim", true);
  const double factor = c.positive_or("block_ffn_dim_multiplier", 1);
  const std::int64_t multiple = c.size_or("block_multiple_of", 256);
  if (!adjusts) return model;
  for (DenseConfig* ffn : every<DenseConfig>(model.blocks)) {
    const double scaled = factor * static_cast<double>(2 * ffn->d_ff / 3);
    if (!(scaled >= 1 && scaled < 2147483648.0)) {
      throw BadCheckpoint(c.where(), "block_ffn_dim_multiplier: expected an FFN of 1 to 2147483647 elements, got {}",
                          scaled);
    }
    const auto width = static_cast<std::int64_t>(scaled);
    ffn->d_ff = multiple * ((width + multiple - 1) / multiple);
  }
  return model;
}

/// The file's shapes say which width the FFN has.
void adapt_lfm2(ModelConfig& model, const ShapeOfTensor& shape_of) {
  const std::vector<std::int64_t> shape = shape_of("{p}layers.0.feed_forward.w1.weight");
  if (shape.size() != 2) return;
  for (DenseConfig* ffn : every<DenseConfig>(model.blocks)) ffn->d_ff = shape[0];
}

}  // namespace

Family lfm2_family() {
  Family family = decoder_family("lfm2", "Lfm2ForCausalLM", read_lfm2);
  family.adapt_to_shapes = adapt_lfm2;
  add_lfm2(family);
  return family;
}

}  // namespace vitrine
