// The keys of own models (model_type "vitrine") that set several fields, or decide which there are.
#pragma once

#include <string_view>

#include "base/fields.h"
#include "checkpoint/own_config.h"
#include "model/config.h"

namespace vitrine::own {

/// What the list of a config says of a field.
template <HasFields C>
std::string_view sentence_of(const C& config, std::string_view name) {
  std::string_view sentence;
  for_each_field(config, [&](const Field& field, const auto&) {
    if (field.name == name) sentence = field.sentence;
  });
  return sentence;
}

inline const EmbeddingConfig kOfContext = [] {
  EmbeddingConfig embedding;
  embedding.context = 2;
  return embedding;
}();
inline const ModelConfig kPair = [] {
  ModelConfig model;
  model.encoder.emplace();
  return model;
}();
inline const RecurrentConfig kAttending = [] {
  RecurrentConfig cell;
  cell.d_attention = 1;
  return cell;
}();

inline const OwnKey kLayerCount{"n_layers", "", "number of layers"};
inline const OwnKey kLayers{
    "layers",
    "",
    "what a layer is: a Transformer's block, a recurrent layer, or a dense one; or a list, which is "
    "repeated, of attention and mixers with a state: delta, kda, mamba, mamba2, conv",
    {"attention", "rnn", "gru", "lstm", "dense"}};
inline const OwnKey kExpand{"expand", "2", "channels of Mamba and Mamba-2 in units of `d_model`"};
inline const OwnKey kEmbeddingNorm{"embedding_norm", "false", sentence_of(EmbeddingConfig(), "embedding_norm")};
inline const OwnKey kPositions{"positions",
                               "`\"rope\"`; `\"none\"` without attention",
                               "what tells a layer the order of tokens; RoPE, relative biases and ALiBi need attention",
                               {"rope", "learned", "none", "sinusoidal", "relative", "alibi"}};
inline const OwnKey kSinusoid{
    "sinusoid",
    "",
    "order of a sinusoid's elements: sine and cosine in turn (Vaswani et al. 2017); all sines, then "
    "all cosines (Marian); halves with the exponent i / (d/2 − 1)",
    {"interleaved", "halves", "tensor2tensor"}};
inline const OwnKey kFinalNorm{"final_norm", "true; false with `after_residual`, and without attention",
                               sentence_of(StackConfig(), "final_norm")};
inline const OwnKey kQkNorm{"qk_norm",
                            "",
                            "a norm of q and k, over each head, each with a weight of its own, or all",
                            {"none", "head", "head_own_weight", "all_heads"}};
inline const OwnKey kFullEvery{"full_every", "none", "every `full_every`-th layer has no window"};
inline const OwnKey kSharedKeys{
    "n_shared_kv_layers", "0",
    "so many last layers read the keys and values of the last layer before them that has a window, "
    "or none, as they do"};
inline const OwnKey kPerLayerWidth{"per_layer_width", "none",
                                   "elements of an embedding of the token that each layer has for itself (Gemma 3n)"};
inline const OwnKey kPerLayerRows{"per_layer_vocab_size", "`vocab_size`", "rows of the table of per-layer embeddings"};
inline const OwnKey kRopeTheta{"rope_theta", "10000", "base of the frequencies"};
inline const OwnKey kRopeFraction{"rope_fraction", "1", "the part of a head that is rotated"};
inline const OwnKey kRopeInterleaved{"rope_interleaved", "false",
                                     "pairs are neighbours, instead of halves of the head"};
inline const OwnKey kRopeReversed{"rope_reversed", "false", sentence_of(RopeConfig(), "reversed")};
inline const OwnKey kRopeDim{"rope_dim", "required with `kv_rank`",
                             "the rotated elements of a head's query, and of the one key"};
inline const OwnKey kNormPlace{"norm_place",
                               "",
                               "of the norms of a sublayer: of its input, its output, both, or of the sum",
                               {"before", "after", "both", "after_residual"}};
inline const OwnKey kParallel{"parallel", "false", "attention and FFN read the same stream, and both are added to it"};
inline const OwnKey kSharedWidth{"d_ff_shared", "none", "inner elements of an expert that every token uses"};
inline const OwnKey kRnnActivation{"activation", "", "of an RNN", {"tanh", "relu"}};
inline const OwnKey kContext{"context", "1", sentence_of(kOfContext, "context")};
inline const OwnKey kContextPad{"pad_token_id", "0", sentence_of(kOfContext, "pad_token_id")};
inline const OwnKey kHeadTransform{"head_transform", "false", sentence_of(HeadConfig(), "head_transform")};
inline const OwnKey kEncoder{"encoder", "none",
                             "an object of the keys that differ in the encoder; `{}`: all are those of the decoder"};
inline const OwnKey kSharedEmbedding{"shared_embedding", "true", sentence_of(kPair, "shared_embedding")};
inline const OwnKey kAdditive{
    "attention", "none", "a recurrent decoder's first layer reads [x ; context] (Bahdanau et al. 2014)", {"additive"}};
inline const OwnKey kBridge{
    "bridge",
    "`\"copy\"` if the encoder is recurrent",
    "the state before a recurrent decoder's first token: that of the encoder's layer after its last "
    "token (equal sizes, one direction), or tanh(W [→h ; ←h] + b)",
    {"copy", "linear"}};

}  // namespace vitrine::own
