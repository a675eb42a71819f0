#include "checkpoint/gguf/plan.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "checkpoint/gguf/heads.h"
#include "checkpoint/gguf/types.h"
#include "checkpoint/names.h"
#include "checkpoint/tensor_rules.h"
#include "kernels/quantize.h"
#include "model/norms.h"

namespace vitrine {
namespace {

constexpr std::string_view kPerLayerTable = "per_layer_token_embd.weight";

class Planner {
 public:
  Planner(const GgufArchitecture& architecture, const Checkpoint& checkpoint, const GgufTypes& types,
          const std::string& where)
      : architecture_(architecture),
        config_(checkpoint.model->config()),
        types_(types),
        model_(architecture.name, config_, lists_heads(architecture)),
        where_(where),
        norms_(norms_of(config_)) {
    model_.weighted = types.importance != nullptr;
    for_each_param(config_, checkpoint.model->params(),
                   [&](const Param& param, const std::string& name, const Shape&) { params_.emplace(name, &param); });
    const std::vector<TensorRule> of_head = config_.task ? gguf_head_tensors() : std::vector<TensorRule>();
    std::vector<TensorRule> rules = gguf_tensor_rules(architecture);
    rules.insert(rules.end(), of_head.begin(), of_head.end());
    for (const TensorRule& rule : rules) {
      const bool is_fused = rule.stored.ends_with(".attn_qkv") && rule.ours.size() > 1;
      const bool is_part =
          rule.stored.ends_with(".attn_q") || rule.stored.ends_with(".attn_k") || rule.stored.ends_with(".attn_v");
      const bool is_one_expert = rule.stored.find("{e}") != rule.stored.npos;  // all experts are written in one tensor
      if (rule.stored == "output" && architecture.is_encoder) continue;        // n_left_out()
      if (is_one_expert || (architecture.fused_qkv ? is_part : is_fused)) continue;
      for_each_place(rule, "", config_, [&](const TensorPlace& place) {
        if (place.stored.ends_with(".ssm_in.weight") && delta_net_of(place.layer) != nullptr) return add_apart(place);
        if (architecture.splits_kv_b && place.stored.ends_with(kKeysAndValues)) return add_by_head(place);
        add(place);
      });
    }
    if (unties_head(architecture, config_)) add_untied_head();
    for (const PlannedTensor& tensor : tensors) model_.count(tensor.name);
    for (PlannedTensor& tensor : tensors) {
      if (tensor.is_matrix) choose_type(tensor);
    }
    used_ += n_left_out();
    if (params_.size() != used_) throw Unsupported(where, "the model has parameters for which GGUF has no names");
  }

  std::vector<PlannedTensor> tensors;

 private:
  using Params = std::map<std::string, const Param*>;  // by our names

  static bool lists_heads(const GgufArchitecture& architecture) {
    return std::any_of(architecture.keys.begin(), architecture.keys.end(), [](const GgufKey& key) {
      return key.name == "attention.head_count_kv" && key.kind == GgufKey::Kind::layer_counts;
    });
  }

  /// Encoders' files have vectors and labels alone: no pooler, no head for masked words.
  std::size_t n_left_out() const {
    if (!architecture_.is_encoder) return 0;
    const auto is_left_out = [&](const auto& param) {
      const std::string& name = param.first;
      const bool is_of_words =
          name.starts_with("head.") || name.starts_with("unembed.") || name.starts_with("nsp_head.");
      return name.starts_with("pooler.") || (is_of_words && !config_.task);
    };
    return static_cast<std::size_t>(std::count_if(params_.begin(), params_.end(), is_left_out));
  }

  void add(const TensorPlace& place) {
    PlannedTensor tensor;
    tensor.name = place.stored;
    std::vector<Shape> shapes;
    bool is_own = true;
    for (const std::string& name : place.ours) {
      Params::const_iterator it = params_.find(name);
      if (it == params_.end()) {
        it = given_to(place.layer, name);
        is_own = false;
      }
      if (it == params_.end()) return;  // this config has no such parameter
      const Param& param = *it->second;
      SourceRows part{&param, param.shape[0]};
      if (place.stored == kPositionTable && architecture_.is_encoder) {  // from the position of the first token on
        part.first = config_.embedding.first_position;
        part.rows -= part.first;
      }
      if (const NormConfig* const norm = norm_of_weight(norms_, name)) part.offset = norm->weight_offset;
      if (name.find(".attn.wq.") != name.npos || name.find(".attn.wk.") != name.npos) permute(place.layer, part);
      part.to_rates = name.ends_with(".a_log") && has_log_rates(place.layer);
      shapes.push_back(param.shape.rank() == 2 ? Shape{part.rows, param.shape[1]} : param.shape);
      tensor.parts.push_back(part);
    }
    const std::size_t n_params = tensor.parts.size();
    const PlaceShape shape = shape_of(place, config_, shapes);
    arrange(place, shapes, tensor);
    const bool is_gate = tensor.name.ends_with(kSharedGateName);
    tensor.rows = shape.rows;
    tensor.cols = shape.cols;
    const bool is_by_head = tensor.name.ends_with(kKeysByHead) || tensor.name.ends_with(kValuesByHead);
    if (is_by_head) tensor.n_heads = heads_of(config_, static_cast<std::size_t>(place.layer))->n_heads;
    tensor.shape = is_gate      ? std::vector{shape.cols}
                   : is_by_head ? std::vector{tensor.n_heads, tensor.rows_of_head(), shape.cols}
                                : shape.stored;
    if (const auto* const mamba = mamba2_of(place.layer)) {
      if (tensor.name.ends_with(kRatesName) || tensor.name.ends_with(kSkipName)) tensor.shape = {shape.rows, 1};
      if (tensor.name.ends_with(kGroupNormName)) tensor.shape = {mamba->n_groups, shape.rows / mamba->n_groups};
    }
    if (is_convolution(tensor.name)) tensor.shape = {shape.rows, shape.cols};
    if (const DeltaNetConfig* const net = delta_net_of(place.layer); net != nullptr && net->decay_by_channel) {
      if (is_convolution(tensor.name)) tensor.shape = {1, shape.rows, 1, shape.cols};
      if (tensor.name.ends_with(kRatesName)) tensor.shape = {1, 1, shape.rows, 1};
    }
    const bool is_small = shape.is_vector || is_gate || tensor.name.ends_with(".ffn_gate_inp.weight") ||
                          tensor.name.ends_with(kRatesName) || is_convolution(tensor.name);
    tensor.multiplies = !is_convolution(tensor.name) && !tensor.name.ends_with(kRatesName);
    tensor.is_matrix =
        !is_small && tensor.name != kPositionTable && tensor.name != kTypeTable && tensor.name != "cls.output.weight";
    if (place.stacks_experts) tensor.n_copies = static_cast<std::int64_t>(tensor.parts.size());
    if (is_own) used_ += n_params;
    if (tensor.name == kPerLayerTable) fill_table(tensor);
    tensors.push_back(std::move(tensor));
  }

  /// The embedding's rows with the factor of the logits.
  void add_untied_head() {
    const Param& param = *params_.at("embed.weight");
    PlannedTensor tensor;
    tensor.name = "output.weight";
    tensor.rows = param.shape[0], tensor.cols = param.shape[1];
    tensor.shape = {tensor.rows, tensor.cols};
    SourceRows part{&param, tensor.rows};
    part.factor = config_.head.scale;
    tensor.parts.push_back(part);
    tensor.is_matrix = true;
    tensors.push_back(std::move(tensor));
  }

  /// Splits the parts where the file interleaves their rows, has heads in another order, or multiplies them by factors.
  void arrange(const TensorPlace& place, const std::vector<Shape>& shapes, PlannedTensor& tensor) {
    const Rows rows = place.rule->rows;
    if (rows != Rows::stacked && rows != Rows::alternating) {
      const std::vector<SourceRows> whole = std::move(tensor.parts);
      tensor.parts.clear();
      for (const RowRun& run : row_runs(place, config_, shapes)) tensor.parts.push_back(rows_of(whole[run.part], run));
    }
    const std::string& ours = place.ours.front();
    const SourceRows whole = tensor.parts.front();
    fold(whole, folded_rows(architecture_, config_, place.layer, ours, whole.rows), tensor);
    const DeltaNetConfig* const net = delta_net_of(place.layer);
    if (net == nullptr || net->heads_alternate || !architecture_.alternates_heads) return;
    const HeadOrders orders = head_orders(*net, ours, whole.rows);
    tensor.parts.front().columns = orders.columns;
    const HeadOrder& order = orders.rows;
    if (order.size == 0) return;
    tensor.parts.clear();
    if (order.first > 0) tensor.parts.push_back(rows_of(whole, {0, 0, order.first}));
    for (std::int64_t head = 0; head < order.n_heads; ++head) {
      tensor.parts.push_back(rows_of(whole, {0, order.first + order.source(head) * order.size, order.size}));
    }
  }

  /// Multiplies the rows of a parameter by factors.
  static void fold(const SourceRows& whole, const std::vector<FoldedRows>& factors, PlannedTensor& tensor) {
    if (factors.size() == 1) {  // its rows may be permuted
      tensor.parts.front().factor = factors.front().factor;
      return;
    }
    if (factors.empty()) return;
    tensor.parts.clear();
    std::int64_t first = 0;
    for (const auto& [count, factor] : factors) {
      tensor.parts.push_back(rows_of(whole, {0, first, count}));
      tensor.parts.back().factor = factor;
      first += count;
    }
  }

  static SourceRows rows_of(SourceRows part, const RowRun& run) {
    part.first = run.first;
    part.rows = run.count;
    return part;
  }

  /// A parameter that holds q, k, v and z of each key head, as a tensor of q, k and v, and one of z.
  void add_apart(const TensorPlace& place) {
    const auto it = params_.find(place.ours.front());
    if (it == params_.end()) return;
    for (const RowsApart& part : rows_apart(*delta_net_of(place.layer))) {
      PlannedTensor tensor;
      tensor.name = with_layer("blk.{l}", place.layer) + std::string(part.end);
      for (const RowRun& run : part.runs) {
        tensor.parts.push_back(rows_of(SourceRows{it->second}, run));
        tensor.rows += run.count;
      }
      tensor.cols = it->second->shape[1];
      tensor.shape = {tensor.rows, tensor.cols};
      tensor.is_matrix = true;
      tensors.push_back(std::move(tensor));
    }
    ++used_;
  }

  const DeltaNetConfig* delta_net_of(std::int64_t layer) const {
    const auto i = static_cast<std::size_t>(layer);
    return i < config_.blocks.size() ? find<DeltaNetConfig>(config_.blocks[i]) : nullptr;
  }

  static bool is_convolution(const std::string& name) {
    return std::any_of(std::begin(kConvolutionNames), std::end(kConvolutionNames),
                       [&](std::string_view end) { return name.ends_with(end); });
  }

  const Mamba2Config* mamba2_of(std::int64_t layer) const {
    const auto i = static_cast<std::size_t>(layer);
    return i < config_.blocks.size() ? find<Mamba2Config>(config_.blocks[i]) : nullptr;
  }

  bool has_log_rates(std::int64_t layer) const {
    const BlockConfig& block = config_.blocks[static_cast<std::size_t>(layer)];
    if (const auto* const mamba = find<MambaConfig>(block)) return mamba->rates_are_logs;
    if (const auto* const mamba = find<Mamba2Config>(block)) return mamba->rates_are_logs;
    const auto* const net = find<DeltaNetConfig>(block);
    return net != nullptr && net->rates_are_logs;
  }

  /// The parameter `name` of the layer whose keys and values `layer` reads, if the file has unread maps.
  Params::const_iterator given_to(std::int64_t layer, const std::string& name) const {
    const AttentionConfig* const reader = attention_of(config_, static_cast<std::size_t>(layer));
    const std::string own = with_layer("blocks.{l}.", layer);
    const bool is_of_layer = reader != nullptr && reader->kv_layer && name.starts_with(own);
    if (architecture_.unread.empty() || !is_of_layer) return params_.end();
    return params_.find(with_layer("blocks.{l}.", *reader->kv_layer) + name.substr(own.size()));
  }

  /// A parameter that holds the keys and the values of all heads, as two tensors.
  void add_by_head(const TensorPlace& place) {
    const auto it = params_.find(place.ours.front());
    if (it == params_.end()) return;
    const auto& c = *find<LatentAttentionConfig>(config_.blocks[static_cast<std::size_t>(place.layer)]);
    const std::string start = place.stored.substr(0, place.stored.size() - kKeysAndValues.size());
    const auto add_part = [&](std::string_view end, const HeadRows& of, std::int64_t rows, std::int64_t cols) {
      PlannedTensor tensor;
      tensor.name = start + std::string(end);
      tensor.n_heads = c.n_heads;
      tensor.shape = {c.n_heads, rows, cols};
      tensor.rows = c.n_heads * rows, tensor.cols = cols;
      SourceRows part{it->second, tensor.rows};
      part.of_heads = of;
      tensor.parts.push_back(part);
      tensor.is_matrix = true;
      tensors.push_back(std::move(tensor));
    };
    add_part(kKeysByHead, c.key_rows(true), c.rank, c.nope_dim);
    add_part(kValuesByHead, c.value_rows(), c.head_value_dim, c.rank);
    ++used_;
  }

  /// Programs look up every token: those that the table lacks have the row of token 0.
  void fill_table(PlannedTensor& tensor) const {
    const std::int64_t n_missing = config_.vocab_size - tensor.rows;
    if (n_missing <= 0) return;
    SourceRows part{tensor.parts.front().param, n_missing};
    part.repeats_first = true;
    tensor.parts.push_back(part);
    tensor.rows = tensor.shape.front() = config_.vocab_size;
  }

  void permute(std::int64_t layer, SourceRows& part) const {
    const AttentionConfig* const a = attention_of(config_, static_cast<std::size_t>(layer));
    if (a == nullptr || !a->rope || a->rope->layout == architecture_.layout) return;
    part.head_dim = a->head_dim;
    part.rope_dim = a->rope->dim;
    part.to_pairs = architecture_.layout == RopeConfig::Layout::interleaved;
  }

  void choose_type(PlannedTensor& tensor) const {
    const auto matches = [&](const GgufTypes::Override& o) { return std::regex_search(tensor.name, o.pattern); };
    const auto found = std::find_if(types_.overrides.begin(), types_.overrides.end(), matches);
    tensor.wanted = found != types_.overrides.end() ? found->dtype
                    : types_.pure                   ? types_.file->dtype
                                                    : mixed_type(*types_.file, model_, tensor.name, tensor.cols);
    tensor.dtype = fitting_type(tensor.wanted, tensor.cols);
    const bool is_kept = tensor.name == "per_layer_model_proj.weight" ||
                         tensor.name.find("altup_") != tensor.name.npos ||
                         tensor.name.find(".laurel_") != tensor.name.npos;
    if (is_kept && is_blocks(tensor.dtype)) {
      tensor.wanted = tensor.dtype = float_type_of(tensor);
    }
    refuse_requantizing(tensor);
    if (types_.importance == nullptr || !is_blocks(tensor.dtype)) return;
    tensor.importance = types_.importance->weights_of(tensor.name, tensor.cols, tensor.n_copies * tensor.n_heads);
  }

  /// That of a matrix which no mix quantizes.
  static DType float_type_of(const PlannedTensor& tensor) {
    const DType own = tensor.parts.front().param->view.dtype;
    return is_blocks(own) ? DType::f32 : own;
  }

  void refuse_requantizing(const PlannedTensor& tensor) const {
    if (types_.allow_requantize || !is_blocks(tensor.dtype)) return;
    for (const SourceRows& part : tensor.parts) {
      const DType own = part.param->view.dtype;
      if (!is_quantized(own) || name_of(own) == name_of(tensor.dtype)) continue;
      throw BadInput(where_, "{} is {} in the model: quantizing it to {} adds a second error (--allow-requantize)",
                     tensor.name, shown_name(own), shown_name(tensor.dtype));
    }
  }

  const GgufArchitecture& architecture_;
  const ModelConfig& config_;
  const GgufTypes& types_;
  MixModel model_;
  const std::string& where_;
  const NormsByName norms_;
  Params params_;
  std::size_t used_ = 0;
};

}  // namespace

GgufTypes::GgufTypes(DType dtype) : GgufTypes(file_type_named(name_of(dtype))) {}

std::int64_t SourceRows::source(std::int64_t row) const {
  if (repeats_first) return 0;
  if (of_heads) return row / of_heads->count * of_heads->step + of_heads->first + row % of_heads->count;
  if (head_dim == 0 || row % head_dim >= rope_dim) return first + row;
  const std::int64_t head = row / head_dim * head_dim, i = row % head_dim, half = rope_dim / 2;
  return first + head + (to_pairs ? i % 2 * half + i / 2 : i % half * 2 + i / half);
}

const float* PlannedTensor::importance_of(std::size_t part, std::int64_t row) const {
  if (importance.empty()) return nullptr;
  const std::int64_t vector = n_copies > 1 ? static_cast<std::int64_t>(part) : row / rows_of_head();
  const float* const own = importance.data() + (n_copies > 1 || n_heads > 1 ? vector * cols : 0);
  return std::any_of(own, own + cols, [](float weight) { return weight > 0; }) ? own : nullptr;
}

std::vector<PlannedTensor> plan_tensors(const GgufArchitecture& architecture, const Checkpoint& checkpoint,
                                        const GgufTypes& types, const std::string& where) {
  return std::move(Planner(architecture, checkpoint, types, where).tensors);
}

}  // namespace vitrine
