#include "report/model_facts.h"

#include <algorithm>

#include "checkpoint/bind_tensors.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/presets.h"
#include "generate/context.h"
#include "inspect/layout.h"
#include "model/check_compute.h"
#include "model/count.h"
#include "report/describe.h"

namespace vitrine {
namespace {

constexpr Phase kAllPhases[] = {Phase::forward, Phase::prefill, Phase::decode, Phase::train};

std::int64_t context_of(const ModelConfig& config) {
  return config.encoder ? std::min(config.max_seq_len, config.encoder->max_seq_len) : config.max_seq_len;
}

Json cost_json(const Cost& c) {
  return {{"flops", c.flops},         {"visible_flops", c.visible_flops},
          {"bytes", c.bytes()},       {"weight_bytes", c.weight_bytes},
          {"kv_bytes", c.kv_bytes},   {"activation_bytes", c.activation_bytes},
          {"map_bytes", c.map_bytes}, {"intensity", c.intensity()}};
}

Json ops_json(const std::vector<Op>& ops, std::int64_t times, const std::string& prefix) {
  Json list = Json::array();
  for (const Op& op : ops) {
    Json entry = cost_json(op.cost);
    entry.update({{"name", prefix + op.name}, {"shape", op.shape}, {"times", times}});
    list.push_back(std::move(entry));
  }
  return list;
}

Json account_json(const InfoRequest& request, const ModelFacts& s, Phase phase) {
  const Workload w = workload_of(request, s, phase);
  const Account a = account(s.config, w);
  Json ops = ops_json(a.first, 1, "");
  for (const Account::Layers& layers : a.layers) {
    for (Json& op : ops_json(layers.ops, layers.group.count(),
                             (layers.stack == Stack::only ? "blocks." : stack_prefix(layers.stack, ".")) +
                                 std::to_string(layers.group.first()) + ".")) {
      op["layers"] = layers.group.layers;
      ops.push_back(std::move(op));
    }
  }
  for (Json& op : ops_json(a.last, 1, "")) ops.push_back(std::move(op));
  const MemoryEstimate m = estimate_memory(s.config, w, kPrefillChunk);
  Json result = cost_json(a.total);
  result.update({{"batch", w.batch},
                 {"length", w.length},
                 {"source_length", s.config.encoder ? Json(w.source_length.value_or(w.length)) : Json()},
                 {"ops", ops},
                 {"memory",
                  {{"weights", m.weights},
                   {"kv_cache", m.kv_cache},
                   {"activations", m.activations},
                   {"optimizer", m.optimizer},
                   {"total", m.total()}}}});
  return result;
}

/// The bytes of the scales that a matrix has apart from its elements.
std::int64_t scale_bytes(const MatrixView& m) {
  const BlockScales& s = m.scales;
  if (s.data == nullptr) return 0;
  const auto blocks = [](std::int64_t first, std::int64_t n, std::int64_t block) {
    return (first + n - 1) / block - first / block + 1;
  };
  return blocks(s.first_row, m.rows, s.block_rows) * blocks(s.first_col, m.cols, s.block_cols) *
         (has_groups(m.dtype)  ? size_of(DType::f32) + (s.groups->zeros != nullptr ? 1 : 0)
          : is_blocks(m.dtype) ? 1
                               : size_of(DType::f32));
}

/// Whether rows of a parameter are read by their number, and nothing is multiplied by it.
bool is_looked_up(const Model& model, const Param& param) {
  const ModelParams& w = model.params();
  const auto is_one_of = [&](const StackParams& stack) {
    return &param == &stack.pos_embed || &param == &stack.type_embed || &param == &stack.per_layer_embed ||
           &param == &stack.rel_bias;
  };
  const bool has_head = w.unembed.weight.present() || is_bidirectional(model.config());
  return is_one_of(w) || is_one_of(w.encoder) || &param == &w.encoder.embed || (has_head && &param == &w.embed);
}

}  // namespace

ModelFacts config_facts(const Json& json, const std::string& name) {
  const Family family = family_of(json, name);
  ModelFacts facts{name, std::string(family.model_type) + ", config only", "", read_model_config(family, json, name)};
  for (const Preset& preset : all_presets()) {
    if (preset.name == name) facts.source = preset.source;
  }
  const auto type = json.contains("dtype") ? json["dtype"] : json.value("torch_dtype", Json("float32"));
  const DType stored = type == "float32" ? DType::f32 : type == "float16" ? DType::f16 : DType::bf16;
  facts.file = json;
  facts.products = type == "bfloat16" ? "bf16" : "f32";
  facts.types = name_of(stored);
  facts.stored_bytes = bytes_of(stored, count_params(facts.config));
  facts.per_layer_bytes = bytes_of(stored, count_per_layer_params(facts.config));
  facts.multiplied[stored] = facts.stored_bytes - facts.per_layer_bytes;
  return facts;
}

ModelFacts checkpoint_facts(const Checkpoint& checkpoint, const std::string& path, Compute compute) {
  const Model& model = *checkpoint.model;
  ModelFacts facts{path, checkpoint.description, "", model.config()};
  facts.compute = compute;
  facts.products = products_name(model, compute);
  facts.stored_bytes = stored_bytes(model);
  const Param& table = model.params().per_layer_embed;
  if (model.config().per_layer) facts.per_layer_bytes = bytes_of(table.view.dtype, table.shape.count());
  facts.unread = checkpoint.unread;
  facts.notes = checkpoint.notes;
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string& name, const Shape& shape) {
    if (shape.sizes().size() > 1 && !is_looked_up(model, param)) {
      facts.multiplied[param.view.dtype] += bytes_of(param.view.dtype, shape.count());
    }
    facts.stored_names[name] = param.stored_name;
    if (checkpoint.stored != nullptr) {
      const auto stored = checkpoint.stored->all.find(param.stored_name);
      if (stored != checkpoint.stored->all.end())
        facts.stored_names[name] = name_in_file(stored->first, stored->second);
    }
    const std::string type(name_of(param.view.dtype));
    if (facts.types.find(type) == std::string::npos) facts.types += (facts.types.empty() ? "" : ", ") + type;
  });
  return facts;
}

std::string stored_name(const ModelFacts& s, const ParameterRow& row) {
  const auto stored = s.stored_names.find(row.first);
  return stored != s.stored_names.end() ? stored->second : "";
}

std::vector<Phase> phases_of(const ModelConfig& config) {
  std::vector<Phase> phases(std::begin(kAllPhases), std::end(kAllPhases));
  if (is_bidirectional(config)) std::erase(phases, Phase::decode);
  return phases;
}

Workload workload_of(const InfoRequest& request, const ModelFacts& s, Phase phase) {
  Workload w;
  w.phase = phase;
  w.batch = request.batch;
  w.length = request.length > 0 ? request.length : std::min<std::int64_t>(1024, context_of(s.config));
  w.source_length = request.source_length;
  w.bytes_per_weight = static_cast<double>(s.stored_bytes) / static_cast<double>(count_params(s.config));
  w.kv = request.kv;
  w.adapters = request.adapters;
  return w;
}

std::string stack_prefix(Stack stack, const char* end) {
  return stack == Stack::only ? "" : (stack == Stack::encoder ? "encoder" : "decoder") + std::string(end);
}

Json info_json(const InfoRequest& request, const ModelFacts& s) {
  Json flow = Json::array(), params = Json::array(), groups = Json::array(), unread = Json::array(), costs;
  for (const UnreadTensors& part : s.unread) {
    unread.push_back({{"what", part.what}, {"tensors", part.count}, {"bytes", part.bytes}});
  }
  for (const SiteLayout& site : site_layout(s.config, 0)) {
    flow.push_back({{"name", name_of(site.site)},
                    {"shape", to_string(site.shape)},
                    {"dtype", "f32"},
                    {"meaning", info(site.site.site).meaning}});
  }
  for (const ParameterRow& row : parameter_table(s.config)) {
    params.push_back({{"name", row.name},
                      {"shape", row.shape.sizes()},
                      {"count", row.shape.count()},
                      {"layers", row.layers},
                      {"total", row.total()},
                      {"stored_name", stored_name(s, row)}});
  }
  const auto add_layers = [&](const StackConfig& stack, Stack name) {
    for (const LayerGroup& group : layer_groups(stack)) {
      Json described = json_of(describe_layer(stack, static_cast<std::size_t>(group.first())));
      described["layers"] = group.layers;
      if (name != Stack::only) described["stack"] = stack_prefix(name, "");
      groups.push_back(std::move(described));
    }
  };
  if (s.config.encoder) add_layers(*s.config.encoder, Stack::encoder);
  add_layers(s.config, s.config.stack());
  for (const Phase phase : phases_of(s.config)) costs[std::string(name_of(phase))] = account_json(request, s, phase);
  const KvTypes kv = request.kv;
  Json facts = {{"name", s.name},
                {"description", s.description},
                {"source", s.source},
                {"params", count_params(s.config)},
                {"bytes", s.stored_bytes},
                {"per_layer_bytes", s.per_layer_bytes},
                {"unread", unread},
                {"notes", s.notes},
                {"dtype", s.types},
                {"compute", s.products},
                {"config", json_of(describe_model(s.config))},
                {"file", s.file},
                {"layers", groups},
                {"flow", flow},
                {"parameters", params},
                {"account", costs},
                {"kv_bytes_per_token", kv_bytes_per_token(s.config, kv)},
                {"state_bytes", state_bytes(s.config).states},
                {"snapshot_bytes", state_bytes(s.config).snapshot},
                {"kv_cache_bytes", costs["prefill"]["memory"]["kv_cache"]}};
  if (request.cluster) {
    const Workload w = workload_of(request, s, Phase::train);
    facts["cluster"] = cluster_json(cluster_of(s.config, w.batch, w.length, *request.cluster));
  }
  return facts;
}

std::int64_t stored_bytes(const Model& model) {
  std::int64_t bytes = 0;
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string&, const Shape& shape) {
    bytes += bytes_of(param.view.dtype, shape.count()) + scale_bytes(param.view);
  });
  return bytes;
}

}  // namespace vitrine
