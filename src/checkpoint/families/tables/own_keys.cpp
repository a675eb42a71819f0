// The table of the keys of own models (model_type "vitrine"), for docs/config.md.
#include "checkpoint/families/tables/own_keys.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "checkpoint/own_config.h"
#include "checkpoint/read_fields.h"

namespace vitrine {
namespace {

/// The rows of docs/config.md.
class KeyRows {
 public:
  void add(const OwnKey& key) {
    OwnKeyRow row{std::string(key.name), std::string(key.otherwise), std::string(key.sentence)};
    if (row.otherwise.empty() && !key.words.empty()) row.otherwise = quoted(key.words.front());
    finish(row, key.words);
  }
  /// The keys of the fields of `config`, whose values are the defaults, but not those of configs within it.
  template <HasFields C>
  void add(const C& config, std::string_view of = "") {
    for_each_field(config, [&](const Field& field, const auto& member) {
      if constexpr (kIsReadable<std::remove_cvref_t<decltype(member)>>) {
        if (field.is_key) add_field(key_of(of, field), field, member);
      }
    });
  }
  std::vector<OwnKeyRow> take() { return std::exchange(rows_, {}); }

 private:
  template <class T>
  void add_field(const std::string& key, const Field& field, const T& member) {
    OwnKeyRow row{key, std::string(field.otherwise), std::string(field.sentence)};
    if (field.otherwise == Field::kRequired) row.otherwise.clear();
    if constexpr (std::is_enum_v<T>) {
      row.otherwise = quoted(text_of(member));
      return finish(row, words(member));
    } else if constexpr (std::is_same_v<T, bool>) {
      row.otherwise = member ? "true" : "false";
    } else if (field.otherwise.empty()) {
      row.otherwise = text_of(member);
    }
    finish(row, {});
  }
  static std::string quoted(std::string_view word) { return fmt::format("`\"{}\"`", word); }
  void finish(OwnKeyRow& row, std::span<const std::string_view> words) {
    const auto is_same = [&](const OwnKeyRow& other) {
      return other.name == row.name && other.sentence == row.sentence;
    };
    if (std::any_of(rows_.begin(), rows_.end(), is_same)) return;
    for (const std::string_view word : words) row.sentence += (word == words.front() ? ": " : ", ") + quoted(word);
    rows_.push_back(std::move(row));
  }

  std::vector<OwnKeyRow> rows_;
};

}  // namespace

std::vector<OwnKeySection> own_config_keys() {
  std::vector<OwnKeySection> sections;
  KeyRows rows;
  EmbeddingConfig embedding;
  embedding.sinusoid = Sinusoid::interleaved;
  rows.add(StackConfig());
  for (const OwnKey* key : {&own::kLayerCount, &own::kLayers, &own::kPositions, &own::kSinusoid}) rows.add(*key);
  rows.add(embedding);
  rows.add(own::kEmbeddingNorm);
  rows.add(NormConfig(), "norm");
  rows.add(own::kFinalNorm);
  sections.push_back({"Every stack", rows.take()});
  AttentionConfig attention;
  attention.window = 1;
  rows.add(attention);
  attention.out_gate = true;  // a row more
  rows.add(attention);
  for (const OwnKey* key : {&own::kFullEvery, &own::kSharedKeys, &own::kQkNorm}) rows.add(*key);
  rows.add(QkNormConfig(), "qk_norm");
  rows.add(QueryScaleConfig(), "query_scale");
  for (const OwnKey* key :
       {&own::kRopeTheta, &own::kRopeFraction, &own::kRopeInterleaved, &own::kRopeReversed, &own::kRopeDim})
    rows.add(*key);
  rows.add(LatentAttentionConfig());
  rows.add(RelativeBiasConfig(), "relative");
  rows.add(AlibiConfig(), "alibi");
  for (const OwnKey* key : {&own::kNormPlace, &own::kParallel, &own::kPerLayerWidth, &own::kPerLayerRows})
    rows.add(*key);
  rows.add(Sublayer{DenseConfig()});
  rows.add(DenseConfig());
  rows.add(ClampedSwiglu(), "clamped_swiglu");
  MoeConfig moe;
  moe.shared.emplace();
  moe.router.groups = 2;
  rows.add(moe);
  rows.add(own::kSharedWidth);
  rows.add(moe.router, "router");
  sections.push_back({"Blocks of attention", rows.take()});
  rows.add(DeltaNetConfig());
  rows.add(own::kExpand);
  rows.add(MambaConfig());
  rows.add(Mamba2Config());
  rows.add(ConvConfig());
  sections.push_back({"Mixers with a state", rows.take()});
  rows.add(RecurrentConfig());
  rows.add(own::kRnnActivation);
  rows.add(PerceptronConfig());
  for (const OwnKey* key : {&own::kContext, &own::kContextPad}) rows.add(*key);
  sections.push_back({"Recurrent and dense layers", rows.take()});
  rows.add(HeadConfig());
  rows.add(own::kHeadTransform);
  sections.push_back({"The head", rows.take()});
  for (const OwnKey* key : {&own::kEncoder, &own::kSharedEmbedding, &own::kAdditive}) rows.add(*key);
  rows.add(OwnKey{"d_attention", "`d_hidden`", own::sentence_of(own::kAttending, "d_attention")});
  rows.add(own::kBridge);
  sections.push_back({"Encoder–decoders", rows.take()});
  return sections;
}

}  // namespace vitrine
