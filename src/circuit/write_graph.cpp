#include "circuit/write_graph.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/file_writer.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "features/yaml_fields.h"

namespace vitrine {
namespace {

/// A number without another one of the same pair (Cantor's pairing function).
std::int64_t paired(std::int64_t a, std::int64_t b) { return (a + b) * (a + b + 1) / 2 + b; }

/// A text as JSON, whatever its bytes.
std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

/// What the frontend knows of a node.
struct FrontendNode {
  std::string id, js_id, layer, type, clerp{};
  std::int64_t feature = 0, position = 0;
  float probability = 0;
  bool is_target = false;
  std::string influence = "null", activation = "null";
};

class FrontendWriter {
 public:
  FrontendWriter(const std::string& path, const AttributionGraph& graph, const PrunedGraph& pruned,
                 const GraphText& text)
      : graph_(graph), pruned_(pruned), text_(text), file_(path) {}

  WrittenGraph write() {
    write_head();
    write_nodes();
    write_links();
    put("}\n");
    file_.write(std::as_bytes(std::span(buffer_)));
    file_.commit();
    return written_;
  }

 private:
  static constexpr std::size_t kBuffer = 1 << 20;

  void put(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() < kBuffer) return;
    file_.write(std::as_bytes(std::span(buffer_)));
    buffer_.clear();
  }

  void write_head() {
    std::string tokens;
    for (const std::int32_t id : text_.ids) tokens += (tokens.empty() ? "" : ", ") + quoted(text_.token(id));
    put(
        fmt::format("{{\n\"metadata\": {{\"slug\": {}, \"scan\": {}, \"transcoder_list\": [], \"prompt_tokens\": [{}], "
                    "\"prompt\": {}, \"node_threshold\": {}, \"schema_version\": 1}},\n",
                    quoted(text_.slug), quoted(text_.scan), tokens, quoted(text_.prompt), text_.node_threshold));
    put("\"qParams\": {\"pinnedIds\": [], \"supernodes\": [], \"linkType\": \"both\", \"clickedId\": \"\", "
        "\"sg_pos\": \"\"},\n");
  }

  FrontendNode node(std::int64_t number) const {
    FrontendNode node;
    if (number < graph_.first_error()) {
      const std::int64_t active = graph_.selected[static_cast<std::size_t>(number)];
      const FeatureNode& feature = graph_.values.features[static_cast<std::size_t>(active)];
      node.position = feature.position;
      node.id = fmt::format("{}_{}_{}", feature.layer, feature.index, feature.position);
      node.js_id = fmt::format("{}_{}-0", feature.layer, feature.index);
      node.layer = std::to_string(feature.layer);
      node.feature = paired(feature.layer, feature.index);
      node.type = "cross layer transcoder";
      node.activation = fmt::format("{}", feature.activation);
    } else if (number < graph_.first_token()) {
      const std::int64_t error = number - graph_.first_error(), n = graph_.values.layout.n_tokens();
      node.position = error % n;
      node.layer = std::to_string(error / n);
      node.id = fmt::format("0_{}_{}", node.layer, node.position);
      node.js_id = fmt::format("{}_{}-0", node.layer, node.position);
      node.feature = -1;
      node.type = "mlp reconstruction error";
    } else if (number < graph_.first_logit()) {
      node.position = node.feature = number - graph_.first_token();
      const std::int32_t id = text_.ids[static_cast<std::size_t>(node.position)];
      node.layer = "E";
      node.id = fmt::format("E_{}_{}", id, node.position);
      node.js_id = fmt::format("E_{}-{}", id, node.position);
      node.type = "embedding";
    } else {
      return logit(static_cast<std::size_t>(number - graph_.first_logit()));
    }
    node.influence = fmt::format("{}", static_cast<float>(pruned_.cumulative[static_cast<std::size_t>(number)]));
    return node;
  }
  FrontendNode logit(std::size_t i) const {
    const LogitNode& logit = graph_.values.logits[i];
    FrontendNode node;
    node.position = graph_.values.layout.n_tokens() - 1;
    node.layer = std::to_string(graph_.values.layout.n_layers() + 1);
    node.id = fmt::format("{}_{}_{}", node.layer, logit.token, node.position);
    node.js_id = fmt::format("L_{}-{}", logit.token, node.position);
    node.feature = logit.token;
    node.type = "logit";
    node.probability = logit.probability;
    node.is_target = i == 0;
    node.clerp = fmt::format("Output \"{}\" (p={:.3f})", text_.token(logit.token), logit.probability);
    return node;
  }

  /// Those that have a link, and all tokens and logits.
  void write_nodes() {
    std::vector<bool> is_linked(pruned_.nodes.size());
    for_links([&](std::int64_t target, std::int64_t source, float) {
      is_linked[static_cast<std::size_t>(target)] = is_linked[static_cast<std::size_t>(source)] = true;
    });
    put("\"nodes\": [");
    for (std::int64_t number = 0; number < graph_.n_nodes(); ++number) {
      const auto i = static_cast<std::size_t>(number);
      if (!pruned_.nodes[i] || (number < graph_.first_token() && !is_linked[i])) continue;
      const FrontendNode n = node(number);
      put(fmt::format(
          "{}\n{{\"node_id\": {}, \"feature\": {}, \"layer\": {}, \"ctx_idx\": {}, \"feature_type\": {}, "
          "\"token_prob\": {}, \"is_target_logit\": {}, \"run_idx\": 0, \"reverse_ctx_idx\": 0, "
          "\"jsNodeId\": {}, \"clerp\": {}, \"influence\": {}, \"activation\": {}}}",
          written_.nodes++ == 0 ? "" : ",", quoted(n.id), n.feature, quoted(n.layer), n.position, quoted(n.type),
          n.probability, n.is_target, quoted(n.js_id), quoted(n.clerp), n.influence, n.activation));
    }
    put("\n],\n");
  }

  void write_links() {
    put("\"links\": [");
    for_links([&](std::int64_t target, std::int64_t source, float effect) {
      put(fmt::format("{}\n{{\"source\": {}, \"target\": {}, \"weight\": {}}}", written_.links++ == 0 ? "" : ",",
                      quoted(node(source).id), quoted(node(target).id), effect));
    });
    put("\n]\n");
  }

  template <class Visit>
  void for_links(Visit visit) const {
    for (std::int64_t row = 0; row < graph_.n_nodes(); ++row) {
      const std::int64_t end = graph_.indptr[static_cast<std::size_t>(row) + 1];
      for (std::int64_t i = graph_.indptr[static_cast<std::size_t>(row)]; i < end; ++i) {
        const auto edge = static_cast<std::size_t>(i);
        if (pruned_.edges[edge]) visit(row, graph_.indices[edge], graph_.effects[edge]);
      }
    }
  }

  const AttributionGraph& graph_;
  const PrunedGraph& pruned_;
  const GraphText& text_;
  FileWriter file_;
  std::string buffer_;
  WrittenGraph written_;
};

void add_floats(SafetensorsWriter& writer, const std::string& name, std::span<const float> values) {
  writer.add(name, Tensor{const_cast<float*>(values.data()), {std::ssize(values)}});
}

}  // namespace

std::string GraphText::token(std::int32_t id) const {
  if (tokenizer == nullptr || id >= tokenizer->target().vocab_size()) return "#" + std::to_string(id);
  return tokenizer->target().decode({&id, 1});
}

std::string scan_of(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path();
  const std::string config = (folder / "config.yaml").string();
  if (fs::exists(config)) {
    const auto file = MappedFile::open(config);
    const auto fields = yaml_fields(file->text_without_mark(), config);
    if (const auto scan = fields.find("scan"); scan != fields.end()) return scan->second;
  }
  const fs::path name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  return name.string();
}

WrittenGraph write_frontend_graph(const std::string& path, const AttributionGraph& graph, const PrunedGraph& pruned,
                                  const GraphText& text) {
  return FrontendWriter(path, graph, pruned, text).write();
}

void write_adjacency(const std::string& path, const AttributionGraph& graph, const GraphText& text) {
  const CircuitValues& values = graph.values;
  SafetensorsWriter writer(path, header_bytes_for(16));
  writer.set_metadata("scan", text.scan);
  writer.set_metadata("n_layers", std::to_string(values.n_layers()));
  std::vector<std::int32_t> places, tokens;
  std::vector<float> activations, probabilities;
  for (const FeatureNode& feature : values.features) {
    places.insert(places.end(), {feature.layer, feature.position, feature.index});
    activations.push_back(feature.activation);
  }
  for (const LogitNode& logit : values.logits) {
    tokens.push_back(logit.token);
    probabilities.push_back(logit.probability);
  }
  writer.add_rows("active_features", places, 3);
  add_floats(writer, "activation_values", activations);
  writer.add("selected_features", std::span<const std::int64_t>(graph.selected));
  writer.add("indptr", std::span<const std::int64_t>(graph.indptr));
  writer.add("indices", std::span<const std::int32_t>(graph.indices));
  add_floats(writer, "values", graph.effects);
  add_floats(writer, "bias", graph.bias);
  add_floats(writer, "value", graph.value);
  writer.add("logit_tokens", std::span<const std::int32_t>(tokens));
  add_floats(writer, "logit_probabilities", probabilities);
  writer.add("input_tokens", std::span<const std::int32_t>(text.ids));
  writer.commit();
}

}  // namespace vitrine
