#include "model/model.h"

#include <algorithm>

#include "base/error.h"
#include "base/exchanged.h"
#include "model/head.h"
#include "model/sites.h"
#include "model/stack.h"
#include "ops/dictionary_run.h"

namespace vitrine {
namespace {

bool keeps_something(const CacheLayerConfig& layer) { return layer.kv.has_value() || !layer.states.empty(); }

/// Once a pass has come to this site, all blocks have what they keep of its tokens; nullopt: no block keeps anything.
/// `crosses`: the pass reads sources, whose keys and values are kept, too.
std::optional<SiteId> last_kept(const ModelConfig& config, bool crosses) {
  for (std::size_t i = config.blocks.size(); i-- > 0;) {
    const std::vector<Sublayer>& sublayers = config.blocks[i].sublayers;
    for (auto sublayer = sublayers.rbegin(); sublayer != sublayers.rend(); ++sublayer) {
      const SublayerNames names = names_of(*sublayer);
      if (!keeps_something(cache_layer(*sublayer)) || (names.is_cross && !crosses)) continue;
      const BlockSite at{static_cast<int>(i), config.stack(), names.is_cross};
      return names.kept ? at(*names.kept) : at(names.post).scale;
    }
  }
  return {};
}

/// The first site that the pass does not need: taps want no value from there on, and the keys and values of all layers
/// have been appended to the caches. nullopt if the pass needs all blocks.
std::optional<SiteId> end_of(const Pass& p, const ModelConfig& config) {
  const bool has_rows = p.logits.rows == LogitRequest::Rows::chosen ? !p.logits.chosen.empty()
                                                                    : p.logits.rows != LogitRequest::Rows::none;
  const bool has_logits = has_rows && (p.logits.receive || p.logits.into.data != nullptr);
  const bool has_vectors = p.receive_hidden || p.receive_pooled || p.receive_next_sentence || p.receive_outputs;
  if (p.training.loss != nullptr || p.is_taped() || has_logits || has_vectors) return {};
  const Stack stack = config.stack();
  const int n_layers = static_cast<int>(config.n_layers());
  SiteId end = BlockSite{0, stack}(Site::resid_pre);
  const auto has_cache = [](const Segment& s) { return s.cache != nullptr; };
  const auto reads_source = [](const Segment& s) { return s.cache != nullptr && s.source >= 0; };
  if (std::any_of(p.segments.begin(), p.segments.end(), has_cache)) {
    const bool crosses = std::any_of(p.segments.begin(), p.segments.end(), reads_source);
    if (recurrent_layer(config, 0) != nullptr) end = BlockSite{n_layers - 1, stack}(Site::resid_post);
    if (const auto kept = last_kept(config, crosses)) end = *kept;
  }
  if (p.taps == nullptr) return end;
  const std::optional<SiteId> last = p.taps->last_wanted();
  if (!last || precedes(BlockSite{n_layers, stack}(Site::resid_post), *last)) return {};
  SiteId after = last->without_dictionary();
  after.segment = -1;
  after.expert = SiteId::kNoExpert;
  after.site = all_sites()[number_of(last->site) + 1];
  if (!info(after.site).in_block()) after = BlockSite{last->layer + 1, last->stack}(Site::resid_pre);
  return precedes(end, after) && last->layer >= 0 ? after : end;
}

/// Throws BadInput unless the rows ascend within [0, n).
void check_rows(std::span<const std::int64_t> rows, std::int64_t n) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < (i > 0 ? rows[i - 1] + 1 : 0) || rows[i] >= n) {
      throw BadInput("forward", "expected ascending rows within [0, {}), got {}", n, rows[i]);
    }
  }
}

}  // namespace

Model::Model(ModelConfig config, ModelParams params, std::vector<std::shared_ptr<const void>> storage,
             PlaceholderTokens placeholders)
    : config_(std::move(config)),
      params_(std::move(params)),
      storage_(std::move(storage)),
      placeholders_(std::move(placeholders)) {
  validate(config_, "config");
  const auto prepare = [](const StackConfig& c, StackParams& w) {
    if (c.embedding.sinusoid) w.sinusoids = std::make_shared<SinusoidRows>(*c.embedding.sinusoid, c.d_model);
  };
  prepare(config_, params_);
  if (config_.head.tied) params_.unembed.weight.name = "unembed.weight";  // for adapters of the head alone
  if (config_.encoder) prepare(*config_.encoder, params_.encoder);
}

void Model::refuse_placeholders(std::span<const std::int32_t> ids) const {
  if (placeholders_.empty()) return;
  for (const std::int32_t id : ids) {
    const auto found = placeholders_.find(id);
    if (found == placeholders_.end()) continue;
    throw BadInput("ids", "{} token {}: this model's {} tower is not read", found->second, id,
                   found->second == "audio" ? "audio" : "vision");
  }
}

KvCache Model::make_cache(std::int64_t capacity, KvTypes types, KvMemory& memory, KvReach reach) const {
  if (capacity < 0 || capacity > config_.max_seq_len) {
    throw BadInput("kv_cache", "expected a capacity of at most {} tokens (the model's context), got {}",
                   config_.max_seq_len, capacity);
  }
  if (is_bidirectional(config_)) {
    throw Unsupported("kv_cache", "the model attends to later tokens, so it cannot continue a text");
  }
  std::vector<CacheLayerConfig> layers = cache_layers(config_);
  for (CacheLayerConfig& layer : layers) {
    if (layer.kv && reach == KvReach::all) layer.kv->window.reset();
  }
  return KvCache(layers, capacity, types, memory);
}

std::shared_ptr<KvCache> Model::make_source_cache(std::int64_t length, KvTypes types, KvMemory& memory) const {
  return std::make_shared<KvCache>(source_cache_layers(config_), length, types, memory, length);  // one block
}

void Model::forward(Pass& p, const Tokens& tokens) const {
  check(p, tokens);
  const PassScope pass_scope(p);
  p.end = end_of(p, config_);
  attach_dictionaries(p, tokens.ids, tokens.source);
  SharedStates source_states;
  const Tensor encoded = encode(p, tokens, source_states);
  const std::span<const std::int32_t> types = config_.encoder ? std::span<const std::int32_t>() : tokens.types;
  const Stack stack = config_.stack();
  if (p.segments.empty()) return;  // the encoder alone
  const StackInput in =
      p.start ? input_of_start(p, tokens) : embed_tokens(p, stack, config_, params_, params_.embed, tokens.ids, types);
  const Tensor x = run_stack(p, stack, config_, params_, in, {encoded, source_states, nullptr});
  if (!p.end) run_head(p, config_, params_, x, tokens.ids);
  for (const Segment& s : p.segments) {
    if (s.cache == nullptr || s.failure || p.shapes_only) continue;
    if (s.source >= 0) s.cache->source()->advance(p.sources[static_cast<std::size_t>(s.source)].length);
    s.cache->advance(s.length);
  }
}

/// The input of a pass that begins at a later layer. Per-layer embeddings need the tokens, too, outside the pass's taps
/// and tape.
StackInput Model::input_of_start(Pass& p, const Tokens& tokens) const {
  StackInput in;
  if (config_.per_layer) {
    const Exchanged<Tape*> without_tape(p.training.tape, nullptr);
    const WithoutSites without_sites(p);
    in = embed_tokens(p, config_.stack(), config_, params_, params_.embed, tokens.ids, tokens.types);
  }
  const Tensor& given = p.start->stream;
  in.stream = p.tensor(given.shape);  // a copy, because the blocks overwrite it
  p.copy(given.data, given.count(), in.stream.data);
  if (p.is_taped()) {
    p.training.tape->record("input", {}, in.stream, [] {});
    if (p.start->receive_gradient) p.training.tape->watch(in.stream, p.start->receive_gradient);
  }
  return in;
}

Tensor Model::head(Pass& p, const Tensor& rows, std::span<const std::int64_t> numbers) const {
  if (!config_.has_head) throw Unsupported("logits", "the model has no head, so it has no logits");
  if (p.split != nullptr) throw Unsupported("--split", "expected no second use of the head");
  return head_logits(p, config_, params_, rows, numbers);
}

/// `[S, d_encoder]`: the encoder's output for the source rows; no data if the pass has none. Sets the last states of
/// the layers of a recurrent encoder.
Tensor Model::encode(Pass& p, const Tokens& tokens, SharedStates& states) const {
  if (p.sources.empty()) return {};
  const StackConfig& c = *config_.encoder;
  const StackParams& w = params_.encoder;
  const Param& table = config_.shared_embedding ? params_.embed : w.embed;
  const StackInput in = embed_tokens(p, Stack::encoder, c, w, table, tokens.source, tokens.types);
  states = make_states(p, Stack::encoder, c);
  Tensor x = run_stack(p, Stack::encoder, c, w, in, {{}, nullptr, states});
  if (p.split != nullptr) p.split->share(x);
  for (Segment& s : p.segments) {
    if (s.source >= 0) s.failure = p.sources[static_cast<std::size_t>(s.source)].failure;
  }
  const BlockSite at{-1, Stack::encoder};
  if (p.ends_before(at(norms::final).scale)) return x;
  x = norm(p, at(norms::final), c.final_norm, w.final_norm, x);
  if (p.receive_hidden) p.receive_hidden(x);
  return x;
}

void Model::forward_backward(Pass& p, const Tokens& tokens) const {
  const bool has_loss = p.training.loss != nullptr && p.training.result != nullptr;
  // Who receives outputs, rows or logits may set their gradients.
  const bool is_received = p.receive_outputs || p.receive_hidden || p.logits.receive;
  if (!p.is_taped() || (!has_loss && !is_received)) {
    throw InternalError("learn", "expected a tape and a loss");
  }
  const ArenaScope scope(p.arena);
  forward(p, tokens);
  p.training.tape->unwind();
}

void Model::check(const Pass& p, const Tokens& tokens) const {
  std::int64_t row = 0;
  for (std::size_t i = 0; i < p.segments.size(); ++i) {
    const Segment& s = p.segments[i];
    if (s.first_row != row || s.length < 1)
      throw BadInput("forward", "expected segment {} to begin at row {} and to have tokens", i, row);
    row += s.length;
    if (s.position < 0 || s.position + s.length > config_.max_seq_len) {
      throw BadInput("forward", "expected at most {} tokens in a sequence (the model's context), got {}",
                     config_.max_seq_len, s.position + s.length);
    }
    check_cache(p, i);
    if (config_.encoder) check_source(p, i);
  }
  const bool encodes_only = config_.encoder && row == 0 && !p.sources.empty() && p.training.loss == nullptr;
  if ((row == 0 && !encodes_only) || row != static_cast<std::int64_t>(tokens.ids.size())) {
    throw BadInput("forward", "expected segments that cover {} tokens (at least 1), got {}", tokens.ids.size(), row);
  }
  check_source_rows(p, tokens);
  if (p.split != nullptr && (p.start || p.is_taped() || p.receive_hidden)) {
    throw Unsupported("--split", "expected a pass from tokens to logits, without gradients");
  }
  if (p.logits.into.data != nullptr && (p.split != nullptr || p.training.loss != nullptr || p.is_taped())) {
    throw Unsupported("forward", "expected no memory for the logits of a split or of a pass with a loss or a tape");
  }
  if (p.start) {
    const int n_layers = static_cast<int>(config_.n_layers());
    const bool fits =
        !config_.encoder && p.start->layer >= 0 && p.start->layer <= n_layers &&
        p.start->stream.shape == Shape{row, config_.width_before(static_cast<std::size_t>(p.start->layer))};
    if (!fits) throw BadInput("forward", "expected the stream of {} rows before a layer of at most {}", row, n_layers);
    if (!can_begin_at(config_, static_cast<std::size_t>(p.start->layer))) {
      throw Unsupported("forward", "a pass cannot begin at layer {}: later layers read keys and values of earlier ones",
                        p.start->layer);
    }
  }
  const StackConfig& typed = config_.encoder ? *config_.encoder : config_;
  const std::size_t n_types = typed.embedding.n_types == 0 ? 0
                              : config_.encoder            ? tokens.source.size()
                                                           : tokens.ids.size();
  if (!tokens.types.empty() && tokens.types.size() != n_types) {
    throw BadInput("forward", "expected {} types, got {}", n_types, tokens.types.size());
  }
  const bool wants_logits =
      p.logits.receive || p.logits.into.data != nullptr ||
      (p.training.loss != nullptr && (!p.training.loss->targets.empty() || gives_gradients(*p.training.loss)));
  if (!config_.has_head && wants_logits) throw Unsupported("logits", "the model has no head, so it has no logits");
  if (!config_.pooler && (p.receive_pooled || p.receive_next_sentence)) {
    throw Unsupported("pooler", "the model has no pooler");
  }
  if (!config_.task &&
      (p.receive_outputs || (p.training.loss != nullptr && !p.training.loss->output_gradients.empty()))) {
    throw Unsupported("head", "the model has no labels: it is no classifier");
  }
  if (p.training.loss != nullptr && p.training.result == nullptr) {
    throw InternalError("forward", "expected a result for the losses");
  }
  if (p.training.loss != nullptr) check(*p.training.loss, row, p.segments.size());
  check_rows(p.logits.chosen, row);
  if (p.hidden_rows) check_rows(*p.hidden_rows, row);
  if (p.hidden_rows && config_.encoder)
    throw Unsupported("forward", "rows of an encoder are received all or not at all");
  if (p.logits.rows == LogitRequest::Rows::range &&
      (p.logits.begin < 0 || p.logits.end > row || p.logits.begin > p.logits.end)) {
    throw BadInput("forward", "expected rows within [0, {}), got [{}, {})", row, p.logits.begin, p.logits.end);
  }
}

void Model::check_cache(const Pass& p, std::size_t i) const {
  const Segment& s = p.segments[i];
  if (s.cache != nullptr) p.refuse_tape("a cache");
  if (s.cache == nullptr) {
    if (s.position != 0) throw BadInput("forward", "segment {} begins at position {} without a cache", i, s.position);
    return;
  }
  if (s.cache->length() != s.position || s.position + s.length > s.cache->capacity()) {
    throw BadInput("forward", "segment {} has positions {} to {}, but its cache has {} of {} tokens", i, s.position,
                   s.position + s.length, s.cache->length(), s.cache->capacity());
  }
  const auto same = [&](const Segment& other) { return other.cache == s.cache; };
  if (!p.shapes_only && std::count_if(p.segments.begin(), p.segments.end(), same) > 1) {
    throw BadInput("forward", "two segments share one cache");
  }
}

/// Checks where segment `i` of a decoder finds its source: in this pass, or in the cache.
void Model::check_source(const Pass& p, std::size_t i) const {
  const Segment& s = p.segments[i];
  const KvCache* const cache = s.cache != nullptr ? s.cache->source() : nullptr;
  if (s.source >= static_cast<int>(p.sources.size())) {
    throw BadInput("forward", "segment {} reads source {} of {}", i, s.source, p.sources.size());
  }
  if (s.source < 0 && (cache == nullptr || cache->length() == 0)) {
    throw BadInput("forward", "segment {} has no source: the model's decoder reads an encoder's output", i);
  }
  if (s.source < 0 || s.cache == nullptr) return;
  const std::int64_t length = p.sources[static_cast<std::size_t>(s.source)].length;
  if (cache == nullptr || cache->length() != 0 || cache->capacity() < length) {
    throw BadInput("forward", "segment {} needs an empty cache for the {} tokens of its source", i, length);
  }
}

void Model::check_source_rows(const Pass& p, const Tokens& tokens) const {
  std::int64_t row = 0;
  for (std::size_t i = 0; i < p.sources.size(); ++i) {
    const Segment& s = p.sources[i];
    if (s.first_row != row || s.length < 1 || s.position != 0 || s.cache != nullptr) {
      throw BadInput("forward", "expected source {} to begin at row {}, and to have tokens and no cache", i, row);
    }
    row += s.length;
    if (config_.encoder && s.length > config_.encoder->max_seq_len) {
      throw BadInput("forward", "expected at most {} tokens in a source (the encoder's context), got {}",
                     config_.encoder->max_seq_len, s.length);
    }
    const auto reads = [&](const Segment& target) { return target.source == static_cast<int>(i); };
    if (p.is_taped() && std::count_if(p.segments.begin(), p.segments.end(), reads) > 1) {
      throw Unsupported("forward", "two segments with a gradient read source {}", i);
    }
  }
  if (!config_.encoder && !p.sources.empty()) throw BadInput("forward", "the model has no encoder to read a source");
  if (row != static_cast<std::int64_t>(tokens.source.size())) {
    throw BadInput("forward", "expected sources that cover {} tokens, got {}", tokens.source.size(), row);
  }
}

void Model::check(const LossRequest& loss, std::int64_t rows, std::size_t n_segments) const {
  for (const LogitTerm& term : loss.logits) {
    const bool exists = term.row >= 0 && term.row < rows && term.id >= 0 && term.id < config_.vocab_size;
    if (!exists) throw BadInput("loss", "expected a logit of {} rows and {} tokens", rows, config_.vocab_size);
  }
  const auto n_logits = static_cast<std::size_t>(rows * config_.vocab_size);
  if (!loss.logit_gradients.empty() && loss.logit_gradients.size() != n_logits) {
    throw BadInput("loss", "expected the gradients of {} logits, got {}", n_logits, loss.logit_gradients.size());
  }
  if (gives_gradients(loss)) return;
  if (!loss.output_gradients.empty()) {
    const bool is_of_rows = config_.task && config_.task->pool == TaskHead::Pool::none;
    const std::size_t n = (is_of_rows ? static_cast<std::size_t>(rows) : n_segments) *
                          static_cast<std::size_t>(config_.task ? config_.task->n_labels() : 0);
    if (loss.output_gradients.size() == n) return;
    throw BadInput("loss", "expected the gradients of {} outputs, got {}", n, loss.output_gradients.size());
  }
  const std::size_t n = loss.targets.size();
  const bool fits = n == static_cast<std::size_t>(rows) || (n + 1 == static_cast<std::size_t>(rows) && n_segments == 1);
  if (!fits || n == 0) throw BadInput("loss", "expected {} targets, got {}", rows, n);
  const std::size_t n_sentences = loss.next_sentence.size();
  const bool predicts_sentence = config_.pooler && config_.pooler->next_sentence;
  if (n_sentences > 0 && (!predicts_sentence || n_sentences != n_segments)) {
    throw BadInput("loss", "expected {} labels of the next sentence, got {}", predicts_sentence ? n_segments : 0,
                   n_sentences);
  }
  for (const std::int32_t label : loss.next_sentence) {
    if (label != 0 && label != 1) throw BadInput("loss", "expected 0 or 1 for the next sentence, got {}", label);
  }
  if (!loss.weights.empty() && loss.weights.size() != n) {
    throw BadInput("loss", "expected {} weights or none, got {}", n, loss.weights.size());
  }
  for (const std::int32_t id : loss.targets) {
    if (id < 0 || id >= config_.vocab_size) {
      throw BadInput("loss", "expected ids from 0 to {}, got {}", config_.vocab_size - 1, id);
    }
  }
}

}  // namespace vitrine
