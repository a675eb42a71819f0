#include "inspect/recorder.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <tuple>

#include "base/error.h"
#include "base/nearest.h"
#include "base/text.h"
#include "pass/pass.h"

namespace vitrine {
namespace {

bool matches(const std::string& glob, const SiteId& id) {
  if (fnmatch(glob.c_str(), name_of(id).c_str(), 0) != 0) return false;
  const SiteInfo& site = info(id.site);
  const std::string_view own = site.name.substr(site.name.rfind('.') + 1);
  return !site.on_demand || glob.ends_with(own);
}

bool names_experts(const std::string& glob) { return glob.find("experts.") != std::string::npos; }

[[noreturn]] void bad_write(std::string_view text, std::string_view why) {
  throw BadInput("--set", "expected SITE[index]=value, got \"{}\": {}", text, why);
}

std::int64_t parse_integer(std::string_view text, std::string_view write) {
  const auto value = number_in<std::int64_t>(text);
  if (!value) bad_write(write, "an index is not a whole number");
  return *value;
}

SiteWrite::Range parse_range(std::string_view text, std::string_view write) {
  const std::size_t colon = text.find(':');
  if (text == ":") return {};
  if (colon == std::string_view::npos) {
    const std::int64_t i = parse_integer(text, write);
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    return {i, i < kMost ? i + 1 : i, false, i == -1};  // kMost is out of range for any value
  }
  const std::string_view from = text.substr(0, colon), to = text.substr(colon + 1);
  return {from.empty() ? 0 : parse_integer(from, write), to.empty() ? 0 : parse_integer(to, write), false, to.empty()};
}

/// The begin and the end of a range over axis `axis` of a value.
std::pair<std::int64_t, std::int64_t> resolve(const SiteWrite& write, const SiteWrite::Range& range, const SiteId& id,
                                              const Shape& shape, int axis) {
  const std::int64_t size = shape[axis];
  if (range.whole) return {0, size};
  const std::int64_t begin = range.begin < 0 ? range.begin + size : range.begin;
  const std::int64_t end = range.open_end ? size : range.end < 0 ? range.end + size : range.end;
  if (begin < 0 || end > size || begin >= end) {
    throw BadInput("--set", "{}: an index is out of range for a dimension of size {}; {} has shape {}", write.text,
                   size, name_of(id), to_string(shape));
  }
  return {begin, end};
}

/// The elements of the tensor of a trace that a write reads, as bytes; empty if the write has a value of its own.
std::span<const std::byte> stored_values(const SiteWrite& write, const SiteId& id, const Shape& shape) {
  if (write.file == nullptr) return {};
  const auto& tensors = write.file->tensors();
  const auto found = tensors.find(name_of(id));
  if (found == tensors.end()) throw BadInput("--set", "{}: the file has no tensor {}", write.text, name_of(id));
  const StoredTensor& tensor = found->second;
  const bool fits = tensor.type == DType::f32 &&
                    std::equal(tensor.shape.begin(), tensor.shape.end(), shape.sizes().begin(), shape.sizes().end());
  if (!fits) {
    throw BadInput("--set", "{}: expected a float32 tensor of shape {}, got {} [{}]", write.text, to_string(shape),
                   tensor.dtype, fmt::join(tensor.shape, ", "));
  }
  return tensor.bytes;
}

/// Modifies elements [first, last) of `value`. `factor`, if it has data, is multiplied by d(new value) / d(old value).
void apply(const SiteWrite& write, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t last,
           const Tensor& factor) {
  const int rank = value.shape.rank();
  if (static_cast<int>(write.index.size()) > rank) {
    throw BadInput("--set", "{}: the index has more entries than {}, which has shape {}", write.text, name_of(id),
                   to_string(value.shape));
  }
  std::int64_t begin[Shape::kMaxRank], end[Shape::kMaxRank];
  for (int i = 0; i < rank; ++i) {
    const auto given = static_cast<std::size_t>(i) < write.index.size();
    const SiteWrite::Range range = given ? write.index[static_cast<std::size_t>(i)] : SiteWrite::Range{};
    std::tie(begin[i], end[i]) = resolve(write, range, id, value.shape, i);
  }
  const std::span<const std::byte> stored = stored_values(write, id, value.shape);
  for (std::int64_t flat = first; flat < last; ++flat) {
    bool inside = true;
    std::int64_t rest = flat;
    for (int i = rank - 1; i >= 0; --i) {
      const std::int64_t at = rest % value.shape[i];
      inside = inside && begin[i] <= at && at < end[i];
      rest /= value.shape[i];
    }
    if (!inside) continue;
    float& x = value.data[flat];
    float from_file = 0;
    if (!stored.empty()) std::memcpy(&from_file, stored.data() + 4 * flat, 4);
    x = !stored.empty()                       ? from_file
        : write.op == SiteWrite::Op::set      ? write.value
        : write.op == SiteWrite::Op::multiply ? x * write.value
                                              : x + write.value;
    if (factor.data == nullptr || write.op == SiteWrite::Op::add) continue;
    factor.data[flat] *= write.op == SiteWrite::Op::multiply ? write.value : 0.0f;
  }
}

std::vector<std::string> globs_of(const std::vector<SiteWrite>& writes) {
  std::vector<std::string> globs;
  for (const SiteWrite& write : writes) globs.push_back(write.glob);
  if (globs.empty()) globs.emplace_back("");  // none, not the default set
  return globs;
}

}  // namespace

SiteLayers site_layers(const ModelConfig& config) {
  return {static_cast<int>(config.blocks.size()), static_cast<int>(most_experts(config)),
          config.encoder ? static_cast<int>(config.encoder->blocks.size()) : -1};
}

SiteSelection::SiteSelection(std::vector<std::string> globs, const SiteLayers& layers)
    : globs_(std::move(globs)), layers_(layers) {
  for_each([&](const SiteId& id) {
    if (info(id.site).in_expert()) return;
    const std::size_t at = index(id);
    if (chosen_.size() <= at) chosen_.resize(at + 1);
    chosen_[at] = is_chosen(id);
  });
}

/// Calls visit(site) for every site that the model may have, in no particular order.
template <class Visit>
void SiteSelection::for_each(Visit&& visit) const {
  const bool has_encoder = layers_.n_encoder_layers >= 0;
  const Stack own = has_encoder ? Stack::decoder : Stack::only;
  const auto visit_layer = [&](const SiteInfo& site, BlockSite at) {
    if (!site.in_expert()) visit(at(site.site));
    if (at.stack == Stack::decoder && in_cross_attention(site.site)) visit(at.of_cross()(site.site));
    if (!site.in_expert() || layers_.n_experts == 0) return;
    visit(at.of_expert(site.site, SiteId::kShared));
    for (int e = 0; e < layers_.n_experts; ++e) visit(at.of_expert(site.site, e));
  };
  for (const SiteInfo& site : all_sites()) {
    if (!site.in_block) {
      visit(BlockSite{-1, in_head(site.site) ? Stack::only : own}(site.site));
      if (has_encoder && !in_head(site.site)) visit(BlockSite{-1, Stack::encoder}(site.site));
      continue;
    }
    for (int layer = 0; layer < layers_.n_layers; ++layer) visit_layer(site, {layer, own});
    for (int layer = 0; layer < layers_.n_encoder_layers; ++layer) visit_layer(site, {layer, Stack::encoder});
  }
}

std::size_t SiteSelection::index(const SiteId& id) {
  const auto part = 2 * static_cast<std::size_t>(id.stack) + static_cast<std::size_t>(id.cross);
  return (static_cast<std::size_t>(id.layer + 1) * 6 + part) * all_sites().size() + static_cast<std::size_t>(id.site);
}

bool SiteSelection::is_chosen(const SiteId& id) const {
  if (globs_.empty()) return !info(id.site).on_demand;
  return std::any_of(globs_.begin(), globs_.end(), [&](const auto& glob) { return matches(glob, id); });
}

bool SiteSelection::contains(const SiteId& id) const {
  if (id.expert != SiteId::kNoExpert) return is_chosen(id);
  const std::size_t at = index(id);
  return at < chosen_.size() && chosen_[at];
}

/// Calls visit(site) for every selected site, in no particular order.
template <class Visit>
void SiteSelection::for_each_chosen(Visit&& visit) const {
  for_each([&](const SiteId& id) {
    if (contains(id)) visit(id);
  });
}

std::int64_t SiteSelection::count() const {
  std::int64_t n = 0;
  for_each_chosen([&](const SiteId&) { ++n; });
  return n;
}

std::optional<SiteId> SiteSelection::last() const {
  std::optional<SiteId> last;
  for_each_chosen([&](const SiteId& id) {
    if (!last || precedes(*last, id)) last = id;
  });
  return last;
}

std::string SiteSelection::nearest_to(const std::string& glob) const {
  std::vector<std::string> names, last_parts;
  for_each([&](const SiteId& id) {
    names.push_back(name_of(id));
    last_parts.push_back(names.back().substr(names.back().rfind('.') + 1));
  });
  // A name of the list that the passes have not met is no suggestion.
  const std::size_t at = glob.find_last_of(".*") + 1;
  if (std::find(names.begin(), names.end(), glob) != names.end() ||
      std::find(last_parts.begin(), last_parts.end(), glob.substr(at)) != last_parts.end()) {
    return "";
  }
  const std::string whole = did_you_mean(glob, names);
  if (!whole.empty() || at == 0) return whole;
  const std::string part = nearest(std::string_view(glob).substr(at), last_parts);
  return part.empty() ? "" : "; did you mean " + glob.substr(0, at) + part + "?";
}

SiteWrite parse_site_write(std::string_view text) {
  SiteWrite write;
  write.text = std::string(text);
  const std::size_t file = text.find("=@"), equals = file != text.npos ? file : text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) bad_write(text, "= is missing");
  std::string_view place = text.substr(0, equals);
  // An operator follows a name or an index. After a dot, * is part of the glob.
  const char before = place.size() > 1 ? place[place.size() - 2] : '.';
  const bool after_name = std::isalnum(static_cast<unsigned char>(before)) != 0 || before == ']';
  if (after_name && (place.ends_with('*') || place.ends_with('+'))) {
    write.op = place.back() == '*' ? SiteWrite::Op::multiply : SiteWrite::Op::add;
    place.remove_suffix(1);
  }
  if (file != text.npos) {
    if (write.op != SiteWrite::Op::set) bad_write(text, "values of a file replace others, with =");
    write.file = std::make_shared<const SafetensorsFile>(SafetensorsFile::open(std::string(text.substr(file + 2))));
  } else {
    const auto value = number_in<decltype(write.value)>(text.substr(equals + 1));
    if (!value) bad_write(text, "the value is not a number, or @FILE");
    write.value = *value;
  }
  if (place.ends_with(']')) {
    const std::size_t open = place.rfind('[');
    if (open == std::string_view::npos) bad_write(text, "] without [");
    std::string_view list = place.substr(open + 1, place.size() - open - 2);
    for (std::size_t comma = 0; comma != std::string_view::npos;) {
      comma = list.find(',');
      write.index.push_back(parse_range(list.substr(0, comma), text));
      if (comma != std::string_view::npos) list.remove_prefix(comma + 1);
    }
    place = place.substr(0, open);
  }
  if (place.empty()) bad_write(text, "the site is missing");
  write.glob = std::string(place);
  return write;
}

Recorder::Recorder(std::vector<std::string> globs, std::vector<SiteWrite> writes, const SiteLayers& layers,
                   Receive receive)
    : globs_(std::move(globs)),
      writes_(std::move(writes)),
      selection_(globs_, layers),
      written_(globs_of(writes_), layers),
      receive_(std::move(receive)),
      glob_met_(globs_.size()),
      write_met_(writes_.size()) {
  for (const std::optional<SiteId>& last : {selection_.last(), written_.last()}) {
    if (last && precedes(last_, *last)) last_ = *last;
  }
}

Tensor Recorder::visit(Pass& pass, const SiteId& id, const Tensor& value) {
  Tensor result = value, factor;
  const bool has_gradient = pass.is_taped() && pass.training.tape->knows(value);
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if (!matches(writes_[i].glob, id)) continue;
    write_met_[i] = true;
    if (pass.shapes_only) {  // only checks the index; the number of an expert's tokens is not known
      if (!info(id.site).in_expert()) apply(writes_[i], id, value, 0, 0, {});
      continue;
    }
    if (result.data == value.data) {
      result = pass.tensor(value.shape);
      std::copy_n(value.data, value.count(), result.data);
      if (has_gradient) factor = pass.tensor(value.shape);
      if (has_gradient) std::fill_n(factor.data, factor.count(), 1.0f);
    }
    apply(writes_[i], id, result, 0, result.count(), factor);
  }
  if (factor.data != nullptr) {
    pass.record("write", {value}, result, [&pass, value, factor, result] {
      const Tensor dvalue = pass.grad(value), dresult = pass.grad(result);
      pass.kernels.multiply_add(factor.data, dresult.data, value.count(), dvalue.data);
    });
  }
  visit_steps(pass, id, result);
  return result;
}

void Recorder::visit_step(Pass&, const SiteId& id, const Tensor& value, std::int64_t first, std::int64_t count,
                          const Tensor& factor) {
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if (!matches(writes_[i].glob, id)) continue;
    write_met_[i] = true;
    apply(writes_[i], id, value, first, first + count, factor);
  }
}

void Recorder::visit_steps(Pass& pass, const SiteId& id, const Tensor& value) {
  if (!selection_.contains(id) || pass.training.recomputing) return;
  for (std::size_t i = 0; i < globs_.size(); ++i) glob_met_[i] = glob_met_[i] || matches(globs_[i], id);
  if (receive_) receive_(id, value);
}

std::optional<SiteId> Recorder::last_wanted() const { return last_; }

void Recorder::visit_gradient(Pass&, const SiteId& id, const Tensor& gradient) { receive_gradient_(id, gradient); }

void Recorder::check_all_met(bool but_experts) const {
  for (std::size_t i = 0; i < globs_.size(); ++i) {
    if (glob_met_[i] || (but_experts && names_experts(globs_[i]))) continue;
    throw BadInput("--sites", "no site of this model matches {}{}", globs_[i], selection_.nearest_to(globs_[i]));
  }
  check_writes_met(but_experts);
}

void Recorder::check_writes_met(bool but_experts) const {
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if (write_met_[i] || (but_experts && names_experts(writes_[i].glob))) continue;
    throw BadInput("--set", "{}: no site of this model matches {}{}", writes_[i].text, writes_[i].glob,
                   selection_.nearest_to(writes_[i].glob));
  }
}

}  // namespace vitrine
