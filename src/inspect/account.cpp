#include "inspect/account.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "model/count.h"
#include "model/dry_run.h"

namespace vitrine {
namespace {

constexpr double kFloat = 4;
constexpr std::int64_t kMaxSequences = 1 << 16;

/// The ops of one layer, or before or after the layers, merged by name.
class OpList {
 public:
  explicit OpList(const Workload& w) : w_(w) {}

  void add(const LedgerOp& op) {
    std::string name = account_name(op);
    const auto same = [&](const Entry& entry) { return entry.name == name; };
    auto it = std::find_if(entries_.begin(), entries_.end(), same);
    if (it == entries_.end()) it = entries_.insert(it, {std::move(name), &op, 0, {}});
    it->rows += op.output.shape.rank() > 0 ? op.output.rows() : 0;
    it->cost += op.cost;
  }

  std::vector<Op> ops() const {
    std::vector<Op> ops;
    for (const Entry& e : entries_) {
      Cost cost{
          e.cost.flops,    e.cost.visible_flops, e.cost.weights * w_.bytes_per_weight, e.cost.activations * kFloat,
          e.cost.kv_bytes, e.cost.maps * kFloat};
      ops.push_back({e.name, shape_of(e), cost * (w_.phase == Phase::train ? products(e) : 1)});
    }
    return ops;
  }

 private:
  struct Entry {
    std::string name;
    const LedgerOp* first;
    std::int64_t rows;  // of all ops of this name
    OpCost cost;
  };

  /// How many products of its size an op has in training: with an adapter, the base has no gradients of weights.
  double products(const Entry& e) const {
    const bool learns = e.first->weight != nullptr && e.first->weight->name.find(".lora_") != std::string::npos;
    return w_.adapters.empty() || learns ? 3 : 2;
  }

  static std::string shape_of(const Entry& e) {
    const LedgerOp& op = *e.first;
    if (!op.shape.empty()) return op.shape;
    if (op.weight != nullptr && op.weight->shape.rank() == 2) {
      const std::int64_t out = op.weight->shape[0], in = op.weight->shape[1];
      return to_string(Shape{e.rows, in}) + " × " + to_string(Shape{in, out});
    }
    return to_string(op.output.shape);
  }

  const Workload& w_;
  std::vector<Entry> entries_;
};

/// `batch` segments of n rows; `encodes`: each has a source.
std::vector<Segment> equal_segments(std::int64_t batch, std::int64_t n, AppliedAdapters adapters,
                                    bool encodes = false) {
  std::vector<Segment> segments;
  for (std::int64_t i = 0; i < batch; ++i) {
    segments.push_back({i * n, n, 0, nullptr, encodes ? static_cast<int>(i) : -1});
    segments.back().modifiers.adapters = adapters;
  }
  return segments;
}

/// A dry run of a workload over at most `chunk` tokens of each sequence.
class WorkloadPass {
 public:
  WorkloadPass(const ModelConfig& config, const Workload& w, std::int64_t chunk, ThreadPool& pool)
      : model_(shape_model(config, w.bytes_per_weight >= 4 ? DType::f32 : DType::bf16)),
        cache_(cache_layers(config), w.length, w.kv, cache_memory_),
        dry_(pool, segments(config, w, chunk), sources(config, w)) {
    if (w.phase == Phase::decode && is_bidirectional(config)) {
      throw Unsupported("decode", "the model attends to later tokens, so it cannot continue a text");
    }
    if (w.phase == Phase::decode) cache_.advance(w.length - 1);
    if (w.phase == Phase::decode && config.encoder) {
      const std::int64_t n = w.source_length.value_or(w.length);
      cache_.set_source(std::make_shared<KvCache>(source_cache_layers(config), n, w.kv, cache_memory_, n));
      cache_.source()->advance(n);
    }
    Pass& p = dry_.pass();
    p.kv_types = w.kv;
    const Segment& last = p.segments.back();
    const bool everywhere = w.phase == Phase::forward || w.phase == Phase::train;
    p.logits.rows = everywhere ? LogitRequest::Rows::range : LogitRequest::Rows::last_of_segments;
    p.logits.end = last.first_row + last.length;
    if (config.has_head) p.logits.receive = [](std::int64_t, const Tensor&) {};
    if (config.task) p.receive_outputs = [](const Tensor&) {};
  }

  DryPass& dry() { return dry_; }
  void run() { dry_.run(model_); }

 private:
  /// All sequences share one cache, which has no elements. Only decoding needs it.
  std::vector<Segment> segments(const ModelConfig& config, const Workload& w, std::int64_t chunk) {
    const bool decodes = w.phase == Phase::decode, starts = w.phase == Phase::prefill && config.encoder;
    const std::int64_t n = decodes || starts ? 1 : std::min(chunk, w.length);
    std::vector<Segment> result = equal_segments(w.batch, n, w.adapters, config.encoder && !decodes);
    for (Segment& s : result) {
      s.position = decodes ? w.length - 1 : 0;
      s.cache = decodes ? &cache_ : nullptr;
    }
    return result;
  }

  static std::vector<Segment> sources(const ModelConfig& config, const Workload& w) {
    if (!config.encoder || w.phase == Phase::decode) return {};
    return equal_segments(w.batch, w.source_length.value_or(w.length), w.adapters);
  }

  Model model_;
  CountedKvMemory cache_memory_;
  KvCache cache_;
  DryPass dry_;
};

double count_elements(AppliedAdapters adapters) {
  std::set<const Param*> params;  // maps may share A
  for (const AppliedAdapter& applied : adapters) {
    for (const auto& [name, low] : applied.adapter->maps) params.insert({low.a.get(), &low.b});
  }
  double n = 0;
  for (const Param* const param : params) n += as_double(param->shape.count());
  return n;
}

}  // namespace

std::string account_name(const LedgerOp& op) {
  std::string name = op.name.empty() ? std::string(name_of(op.call.kind)) : op.name;
  if (const std::size_t at = name.find(".experts."); at != std::string::npos) {
    const std::size_t number = at + 9;
    name.erase(number, name.find('.', number) + 1 - number);
  }
  return op.layer < 0 && op.stack == Stack::encoder ? "encoder." + name : name;
}

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, 4> kNames = {"forward", "prefill", "decode", "train"};
  return kNames[static_cast<std::size_t>(phase)];
}

Cost& Cost::operator+=(const Cost& o) {
  flops += o.flops;
  visible_flops += o.visible_flops;
  weight_bytes += o.weight_bytes;
  activation_bytes += o.activation_bytes;
  kv_bytes += o.kv_bytes;
  map_bytes += o.map_bytes;
  return *this;
}

Cost Cost::operator*(double times) const {
  return {flops * times,    visible_flops * times, weight_bytes * times, activation_bytes * times,
          kv_bytes * times, map_bytes * times};
}

Account account(const ModelConfig& config, const Workload& workload) {
  if (workload.batch < 1 || workload.batch > kMaxSequences) {
    throw BadInput("batch", "expected 1 to {}, got {}", kMaxSequences, workload.batch);
  }
  const auto check_length = [](const char* name, std::int64_t length, std::int64_t context) {
    if (length >= 1 && length <= context) return;
    throw BadInput(name, "expected 1 to {} (the model's context), got {}", context, length);
  };
  check_length("length", workload.length, config.max_seq_len);
  if (!config.encoder && workload.source_length) throw BadInput("source length", "the model has no encoder");
  if (config.encoder) {
    check_length("source length", workload.source_length.value_or(workload.length), config.encoder->max_seq_len);
  }
  ThreadPool pool(1);
  Ledger ledger;
  WorkloadPass run(config, workload, workload.length, pool);
  run.dry().pass().ledger = &ledger;
  run.run();

  std::map<std::pair<Stack, int>, OpList> layers;
  OpList first(workload), last(workload);
  bool before = true;
  for (const LedgerOp& op : ledger.ops()) {
    before = before && (op.layer < 0 || op.stack == Stack::encoder);
    OpList& outside = before ? first : last;
    (op.layer >= 0 ? layers.try_emplace({op.stack, op.layer}, workload).first->second : outside).add(op);
  }
  Account result;
  result.first = first.ops();
  const auto add_layers = [&](Stack stack, const StackConfig& blocks) {
    for (LayerGroup& group : layer_groups(blocks)) {
      const auto list = layers.find({stack, group.first()});
      if (list == layers.end()) continue;  // the pass did not need them
      std::vector<Op> ops = list->second.ops();
      for (const Op& op : ops) result.total += op.cost * as_double(group.count());
      result.layers.push_back({stack, std::move(group), std::move(ops)});
    }
  };
  if (config.encoder) add_layers(Stack::encoder, *config.encoder);
  add_layers(config.stack(), config);
  result.last = last.ops();
  for (const Op& op : result.first) result.total += op.cost;
  for (const Op& op : result.last) result.total += op.cost;
  return result;
}

double kv_bytes_per_token(const ModelConfig& config, KvTypes kv) {
  double sum = 0;
  for (const CacheLayerConfig& layer : cache_layers(config)) {
    if (!layer.kv || layer.kv->window) continue;
    sum += as_double(layer.kv->token_bytes(kv));
  }
  return sum;
}

StateBytes state_bytes(const ModelConfig& config) {
  StateBytes bytes;
  const std::vector<CacheLayerConfig> layers = cache_layers(config);
  for (const CacheLayerConfig& layer : layers) {
    for (const StateConfig& state : layer.states) bytes.states += state.shape.count() * std::int64_t{sizeof(float)};
  }
  CountedKvMemory counted;
  bytes.snapshot = KvCache(layers, 1, KvType::f32, counted).snapshot_bytes();
  return bytes;
}

MemoryEstimate estimate_memory(const ModelConfig& config, const Workload& w, std::int64_t chunk) {
  const bool trains = w.phase == Phase::train;
  const double n_params = as_double(count_params(config)), batch = as_double(w.batch);
  MemoryEstimate m;
  m.weights = n_params * (trains ? kFloat : w.bytes_per_weight);
  ThreadPool pool(1);
  const double n_adapter = count_elements(w.adapters);
  if (!w.adapters.empty()) m.weights = n_params * w.bytes_per_weight + n_adapter * kFloat;
  if (trains) {
    m.optimizer = (w.adapters.empty() ? n_params : n_adapter) * 3 * kFloat;
    TrainingPass learning{w.batch, w.length, w.source_length};
    learning.adapters = w.adapters;
    m.activations = as_double(training_bytes(config, learning, pool));
    return m;
  }
  m.weights -= as_double(count_per_layer_params(config)) * w.bytes_per_weight;  // their rows stay in the file
  CountedKvMemory counted;
  m.kv_cache = batch * as_double(KvCache(cache_layers(config), w.length, w.kv, counted).bytes());
  const std::int64_t n_source = w.source_length.value_or(w.length);
  m.kv_cache += batch * as_double(KvCache(source_cache_layers(config), n_source, w.kv, counted).bytes());
  WorkloadPass run(config, w, is_bidirectional(config) ? w.length : chunk, pool);
  run.run();
  m.activations = as_double(run.dry().bytes());
  return m;
}

std::int64_t training_bytes(const ModelConfig& config, const TrainingPass& of, ThreadPool& pool) {
  const std::int64_t n_source = of.source_length.value_or(of.length);
  DryPass dry(pool, equal_segments(of.batch, of.length, of.adapters, config.encoder.has_value()),
              equal_segments(config.encoder ? of.batch : 0, n_source, of.adapters));
  Gradients gradients;
  Tape tape(gradients, &dry.gradient_memory());
  dry.pass().compute = Compute::f32;  // as the learner, also in parts that are computed again
  dry.pass().training.tape = &tape;
  dry.pass().training.recompute = of.recompute;
  dry.pass().training.dropout.rate = of.dropout ? 0.5f : 0.0f;
  dry.pass().training.adapter_dropout = of.adapter_dropout ? 0.5f : 0.0f;
  dry.pass().training.begin = of.begin;
  dry.run(shape_model(config, of.dtype));
  return dry.bytes();
}

}  // namespace vitrine
