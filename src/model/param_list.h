// How the kinds of sublayers and layers list their parameters (model/params.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "ops/linear.h"
#include "ops/norm.h"

namespace vitrine {

/// Elements of a row of the stream, and of the encoder's output (0 without an encoder), that a sublayer reads.
struct Widths {
  std::int64_t stream = 0;
  std::int64_t source = 0;
};

/// Passes parameters to a function, with their names and shapes.
class ParamList {
 public:
  using Visit = std::function<void(Param&, const std::string& name, const Shape&)>;

  using VisitNorm = std::function<void(const std::string& name, const NormConfig&)>;

  /// `visit_norm`, if given, receives the norms, whose parameters are `name`.weight and `name`.bias.
  explicit ParamList(Visit visit, VisitNorm visit_norm = {})
      : visit_(std::move(visit)), visit_norm_(std::move(visit_norm)) {}

  void add(Param& param, const std::string& name, const Shape& shape) { visit_(param, name, shape); }

  void linear(LinearParams& w, const std::string& name, std::int64_t out, std::int64_t in, bool bias) {
    add(w.weight, name + ".weight", Shape{out, in});
    if (bias) add(w.bias, name + ".bias", Shape{out});
  }

  void norm(NormParams& w, const std::string& name, const std::optional<NormConfig>& c, std::int64_t width) {
    if (c) norm(w, name, *c, width);
  }

  /// `visit_norm` receives `c` itself, not a copy.
  void norm(NormParams& w, const std::string& name, const NormConfig& c, std::int64_t width) {
    if (visit_norm_) visit_norm_(name, c);
    if (c.weight) add(w.weight, name + ".weight", Shape{width});
    if (c.bias) add(w.bias, name + ".bias", Shape{width});
  }

 private:
  Visit visit_;
  VisitNorm visit_norm_;
};

}  // namespace vitrine
