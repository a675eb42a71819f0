#include "inspect/layout.h"

#include <algorithm>

#include "model/dry_run.h"

namespace vitrine {
namespace {

/// Records every site of the default set and the shape of its value.
class SiteNotes : public Taps {
 public:
  struct Note {
    SiteId id;
    Shape shape;
  };

  bool wants(const SiteId& id) const override { return !info(id.site).on_demand; }
  Tensor visit(Pass&, const SiteId& id, const Tensor& value) override {
    notes.push_back({id, value.shape});
    return value;
  }

  std::vector<Note> notes;
};

/// Letters for the sizes that depend on the pass, numbers for the rest.
std::vector<Extent> extents(const SiteShape& shape, const Shape& sizes) {
  std::vector<Extent> result;
  for (const Dim dim : shape.dims()) {
    const std::int64_t size = sizes[static_cast<int>(result.size())];
    if (dim == dims::T_1) {
      result.push_back({'T', -1});
    } else if (dim == dims::R && size > 1) {
      result.push_back({'T', 0});
    } else if (dim == dims::T || dim == dims::S || dim == dims::n) {
      result.push_back({dim.name[0], 0});
    } else {
      result.push_back({0, size});
    }
  }
  return result;
}

}  // namespace

std::vector<LayerGroup> layer_groups(const StackConfig& config) {
  std::vector<LayerGroup> groups;
  for (std::size_t i = 0; i < config.n_layers(); ++i) {
    const auto alike = [&](const LayerGroup& group) {
      const auto first = static_cast<std::size_t>(group.first());
      const bool is_same =
          config.layers.empty() ? config.blocks[first] == config.blocks[i] : config.layers[first] == config.layers[i];
      return is_same && config.width_before(first) == config.width_before(i);
    };
    const auto it = std::find_if(groups.begin(), groups.end(), alike);
    if (it == groups.end()) {
      groups.push_back({{static_cast<int>(i)}});
    } else {
      it->layers.push_back(static_cast<int>(i));
    }
  }
  return groups;
}

std::string to_string(const LayerGroup& group) {
  const std::vector<int>& l = group.layers;
  const int step = l.size() > 1 ? l[1] - l[0] : 1;
  bool regular = true;
  for (std::size_t i = 1; i < l.size(); ++i) regular = regular && l[i] - l[i - 1] == step;
  if (l.size() == 1) return std::to_string(l[0]);
  if (regular && step == 1) return std::to_string(l[0]) + "-" + std::to_string(l.back());
  std::string text;
  if (regular && l.size() > 4) {
    return std::to_string(l[0]) + ", " + std::to_string(l[1]) + ", …, " + std::to_string(l.back());
  }
  for (const int layer : l) text += (text.empty() ? "" : ", ") + std::to_string(layer);
  return text;
}

std::vector<SiteLayout> site_layout(const ModelConfig& config, int layer) {
  ThreadPool pool(1);
  SiteNotes taps;
  const std::int64_t n = std::min<std::int64_t>(2, config.max_seq_len);
  DryPass dry = config.encoder ? DryPass(pool, {{0, n, 0, nullptr, 0}}, {{0, n}}) : DryPass(pool, {{0, n}});
  dry.pass().taps = &taps;
  dry.pass().logits = {LogitRequest::Rows::range, 0, dry.pass().segments[0].length, {}};
  dry.run(shape_model(config));
  std::vector<SiteLayout> result;
  int expert = SiteId::kNoExpert;  // represents all experts of the layer
  for (const SiteNotes::Note& note : taps.notes) {
    SiteId id = note.id;
    if (id.layer >= 0 && id.layer != (id.stack == Stack::encoder ? 0 : layer)) continue;
    if (info(id.site).in_expert()) {
      if (id.expert == SiteId::kShared) continue;
      if (expert == SiteId::kNoExpert) expert = id.expert;
      if (id.expert != expert) continue;
      id.expert = SiteId::kNoExpert;
    }
    result.push_back({id, extents(info(id.site).shape, note.shape)});
  }
  return result;
}

std::string to_string(const std::vector<Extent>& shape) {
  std::string text;
  for (const Extent& extent : shape) {
    text += text.empty() ? "[" : ", ";
    if (extent.letter != 0) text += extent.letter;
    if (extent.letter == 0 || extent.size != 0) text += std::to_string(extent.size);
  }
  return text + "]";
}

}  // namespace vitrine
