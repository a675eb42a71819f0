#include "support/backward.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "checkpoint/adapters/adapter.h"
#include "checkpoint/bind_tensors.h"
#include "checkpoint/safetensors.h"
#include "support/data.h"

namespace vitrine::test {
namespace {

/// The ends of the names of tensors that training does not change.
constexpr std::string_view kBuffers[] = {"correction_bias", ".expert_bias", "act_fn.beta", "act_fn.eps",
                                         "layer_scalar"};

Shape shape_of(const std::vector<std::int64_t>& s) {
  return s.empty()       ? Shape{}
         : s.size() == 1 ? Shape{s[0]}
         : s.size() == 2 ? Shape{s[0], s[1]}
         : s.size() == 3 ? Shape{s[0], s[1], s[2]}
                         : Shape{s[0], s[1], s[2], s[3]};
}

}  // namespace

ModelGradients::ModelGradients(const Model& model, const BackwardOptions& o) : model_(model), o_(o), pool_(o.threads) {
  if (o.adapter != nullptr) {
    for_each_matrix(*o.adapter, [&](const Param& param) { gradients_.add(param); });
    return;
  }
  for_each_param(model.config(), model.params(),
                 [&](const Param& param, const std::string&, const Shape&) { gradients_.add(param); });
}

void ModelGradients::forward_backward(const std::vector<Ids>& sequences, float scale, std::vector<float> weights) {
  Arena arena;
  Tape tape(gradients_);
  Ids ids, targets;
  std::vector<float> counted;
  const std::shared_ptr<const Adapter> adapter(std::shared_ptr<const void>(), o_.adapter);
  const std::vector<AppliedAdapter> applied(o_.adapter != nullptr ? 1 : 0, AppliedAdapter{adapter, 1});
  Pass pass{{pool_, *o_.kernels, arena}, {}, {}, o_.taps, o_.kv_types};
  pass.compute = Compute::f32;
  for (const Ids& sequence : sequences) {
    const auto first = static_cast<std::int64_t>(ids.size()), n = static_cast<std::int64_t>(sequence.size());
    pass.segments.push_back({first, n, 0, nullptr});
    pass.segments.back().modifiers = {applied, o_.controls};
    ids.insert(ids.end(), sequence.begin(), sequence.end());
    targets.insert(targets.end(), sequence.begin() + 1, sequence.end());
    targets.push_back(0);
    counted.resize(ids.size(), 1.0f);
    counted.back() = 0;
  }
  if (!weights.empty()) counted = std::move(weights);
  LossRequest loss{.targets = targets, .weights = counted, .scale = scale};
  loss.next_sentence = o_.next_sentence;
  loss.label_smoothing = o_.label_smoothing;
  loss.z_loss = o_.z_loss;
  LossResult found;
  logits.clear();
  pass.logits.receive = [&](std::int64_t, const Tensor& t) { logits.insert(logits.end(), t.data, t.data + t.count()); };
  pass.training.tape = &tape;
  pass.training.loss = &loss;
  pass.training.result = &found;
  pass.training.recompute = o_.recompute;
  pass.training.begin = o_.begin;
  model_.forward_backward(pass, ids);
  cross_entropy += found.cross_entropy;
  next_sentence += found.next_sentence;
  z_squares += found.z_squares;
}

Values ModelGradients::gradients() const {
  Values values;
  for_each_param(model_.config(), model_.params(), [&](const Param& param, const std::string& name, const Shape&) {
    const Tensor gradient = gradients_.of(param);
    values[name] = {gradient.shape, {gradient.data, gradient.data + gradient.count()}};
  });
  return values;
}

Values gradients_of(const Model& model, const Ids& ids, const BackwardOptions& o) {
  ModelGradients model_gradients(model, o);
  model_gradients.forward_backward({ids}, 1.0f / static_cast<float>(ids.size() - 1));
  return model_gradients.gradients();
}

double loss_of(const Model& model, const Ids& ids, Taps* taps) {
  ThreadPool pool(1);
  Arena arena;
  Ids targets(ids.begin() + 1, ids.end());
  targets.push_back(0);
  std::vector<float> weights(ids.size(), 1.0f);
  weights.back() = 0;
  LossRequest loss{targets, weights};
  LossResult found;
  Pass pass{{pool, default_kernels(), arena}, {{0, static_cast<std::int64_t>(ids.size()), 0, nullptr}}, {}, taps};
  pass.compute = Compute::f32;
  pass.training.loss = &loss;
  pass.training.result = &found;
  model.forward(pass, ids);
  return found.cross_entropy;
}

double largest(const std::vector<float>& values) {
  double m = 0;
  for (const float v : values) m = std::max(m, std::abs(static_cast<double>(v)));
  return m;
}

Distance distance(const Values& ours, const Values& reference, double relative, double absolute) {
  double most = 0;
  for (const auto& [name, value] : reference) most = std::max(most, largest(value.data));
  Distance result;
  const auto note = [&](double d, const std::string& name) {
    if (!(d <= result.worst)) result = {d, name};
  };
  for (const auto& [name, value] : ours) {
    if (!reference.contains(name)) note(std::numeric_limits<double>::infinity(), name + " is not in the reference");
  }
  for (const auto& [name, value] : reference) {
    const auto it = ours.find(name);
    if (it == ours.end() || it->second.shape != value.shape) {
      note(std::numeric_limits<double>::infinity(), name + (it == ours.end() ? " is missing" : " has another shape"));
      continue;
    }
    const double bar = relative * largest(value.data) + absolute * most;
    for (std::size_t i = 0; i < value.data.size(); ++i) {
      const double d = std::abs(static_cast<double>(it->second.data[i]) - static_cast<double>(value.data[i]));
      if (d != 0) note(d / bar, name + ", element " + std::to_string(i));
    }
  }
  return result;
}

std::string first_difference(const Values& a, const Values& b) {
  if (a.size() != b.size()) return "their number";
  for (const auto& [name, value] : a) {
    const auto it = b.find(name);
    if (it == b.end() || !same_bits(value.data, it->second.data)) return name;
  }
  return "";
}

Values tensors_of(const std::string& path) {
  Values values;
  const SafetensorsFile file = SafetensorsFile::open(path);
  for (const auto& [name, tensor] : file.tensors()) {
    Value value{shape_of(tensor.shape), std::vector<float>(tensor.bytes.size() / sizeof(float))};
    std::memcpy(value.data.data(), tensor.bytes.data(), tensor.bytes.size());
    values[name] = std::move(value);
  }
  return values;
}

Values golden_gradient_file(const std::string& name) {
  return tensors_of(goldens() + "/" + name + "/gradients.safetensors");
}

Checkpoint golden_gradient_checkpoint(const std::string& name, const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(goldens() + "/" + name + "/config.json", folder + "/config.json");
  Values gradients = golden_gradient_file(name);
  gradients.erase("loss");
  const Checkpoint golden = golden_checkpoint(name);
  for (const auto& [stored, tensor] : golden.stored->all) {
    const bool is_buffer = std::any_of(std::begin(kBuffers), std::end(kBuffers),
                                       [&](std::string_view end) { return stored.ends_with(end); });
    if (!is_buffer) continue;  // a buffer has no gradient
    Value zeros = tensors_of(goldens() + "/" + name + "/model.safetensors").at(stored);
    std::fill(zeros.data.begin(), zeros.data.end(), 0.0f);
    gradients[stored] = std::move(zeros);
  }
  SafetensorsWriter writer(folder + "/model.safetensors", 256 + 240 * static_cast<std::int64_t>(gradients.size()));
  for (auto& [stored, value] : gradients) writer.add(stored, {value.data.data(), value.shape});
  writer.commit();
  return load_checkpoint(folder);
}

Values params_of(const Model& model) {
  Values values;
  for_each_param(model.config(), model.params(), [&](const Param& param, const std::string& name, const Shape& shape) {
    Value value{shape, {}};
    const MatrixView& view = param.view;
    std::vector<float> element(1);
    for (std::int64_t r = 0; r < view.rows; ++r) {
      for (std::int64_t c = 0; c < view.cols; ++c) {
        default_kernels().widen(view.at(r, c), view.dtype, 1, element.data());
        value.data.push_back(element[0]);
      }
    }
    values[name] = std::move(value);
  });
  return values;
}

}  // namespace vitrine::test
