#include "inspect/site_write.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "model/sites.h"
#include "pass/dictionary_sites.h"

namespace vitrine {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void bad_write(std::string_view text, std::string_view why) {
  throw BadInput("--set", "expected SITE[index]=value, got \"{}\": {}", text, why);
}

/// `hook_q` of `attn.hook_q`.
std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

/// Whether the last parts of a glob and of a name are the same, as far as the glob's is literal.
bool ends_alike(std::string_view glob, std::string_view name) {
  for (; !glob.empty() && glob.back() != '.'; glob.remove_suffix(1)) {
    const char c = glob.back();
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\') return true;
    if (name.empty() || name.back() != c) return false;
    name.remove_suffix(1);
  }
  return name.empty() || name.back() == '.';
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
    return {i, i < kMax ? i + 1 : i, false, i == -1};  // kMax is out of range for any value
  }
  const std::string_view from = text.substr(0, colon), to = text.substr(colon + 1);
  return {from.empty() ? 0 : parse_integer(from, write), to.empty() ? 0 : parse_integer(to, write), false, to.empty()};
}

/// The indices [begin, end) of one axis that a write changes.
struct Interval {
  std::int64_t begin = 0, end = kMax;
};

/// `in_part`: the axis has the positions of tokens of a part of a sequence.
Interval resolve(const SiteWrite& write, const SiteWrite::Range& range, const SiteId& id, const Shape& shape, int axis,
                 bool in_part) {
  const std::int64_t size = shape[axis];
  if (range.whole) return {};
  if (in_part) return {range.begin, range.open_end ? kMax : range.end};
  const std::int64_t begin = range.begin < 0 ? range.begin + size : range.begin;
  const std::int64_t end = range.open_end ? size : range.end < 0 ? range.end + size : range.end;
  if (begin < 0 || end > size || begin >= end) {
    throw BadInput("--set", "{}: an index is out of range for a dimension of size {}; {} has shape {}", write.text,
                   size, name_of(id), to_string(shape));
  }
  return {begin, end};
}

/// The interval of an axis as indices of the value. `positions`: those of its tokens, ascending; empty: all.
Interval in_value(const Interval& own, std::span<const std::int64_t> positions, std::int64_t size) {
  if (positions.empty()) return {own.begin, std::min(own.end, size)};
  const auto index_of = [&](std::int64_t position) {
    return std::lower_bound(positions.begin(), positions.end(), position) - positions.begin();
  };
  return {index_of(own.begin), index_of(own.end)};
}

/// Removes indices that elements [first, first + count) of a value do not have.
void narrow(std::span<Interval> intervals, const Shape& shape, std::int64_t first, std::int64_t count) {
  std::int64_t stride = shape.count(), last = first + count - 1;
  for (int i = 0; i < shape.rank() && count > 0 && stride > 0; ++i) {
    Interval& own = intervals[static_cast<std::size_t>(i)];
    stride /= shape[i];
    const std::int64_t lowest = first / stride, highest = last / stride;
    own = {std::max(own.begin, lowest), std::min(own.end, highest + 1)};
    if (lowest != highest) return;
    first -= lowest * stride;
    last -= lowest * stride;
  }
}

/// Calls visit(i) for every element of a value whose indices are in the intervals, ascending.
template <class Visit>
void for_each_in(std::span<const Interval> intervals, const Shape& shape, Visit&& visit) {
  std::int64_t indices[Shape::kMaxRank];
  const int rank = shape.rank();
  for (int i = 0; i < rank; ++i) {
    indices[i] = intervals[static_cast<std::size_t>(i)].begin;
    if (indices[i] >= intervals[static_cast<std::size_t>(i)].end) return;
  }
  while (true) {
    std::int64_t flat = 0;
    for (int i = 0; i < rank; ++i) flat = flat * shape[i] + indices[i];
    visit(flat);
    int axis = rank - 1;
    for (; axis >= 0 && ++indices[axis] >= intervals[static_cast<std::size_t>(axis)].end; --axis) {
      indices[axis] = intervals[static_cast<std::size_t>(axis)].begin;
    }
    if (axis < 0) return;
  }
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

}  // namespace

bool may_match(std::string_view glob, Site site) {
  if (ends_alike(glob, info(site).name)) return true;
  return in_cross_attention(site) && glob.find("cross") != glob.npos;  // it has other names there
}

bool may_match(std::string_view glob, const SiteId& id) {
  if (id.value == kProbeValue) return true;  // its name ends in one of a file
  return id.dictionary != nullptr ? ends_alike(glob, info(id).name) : may_match(glob, id.site);
}

bool matches(const std::string& glob, const SiteId& id) {
  if (!may_match(glob, id)) return false;
  const SiteInfo& site = info(id);
  const std::string name = name_of(id);
  const bool is_name = glob.find_first_of("*?[\\") == glob.npos;
  if (is_name ? glob != name : fnmatch(glob.c_str(), name.c_str(), 0) != 0) return false;
  return !site.on_demand || glob.ends_with(last_part(site.name));
}

std::vector<std::string> globs_of(const std::vector<SiteWrite>& writes) {
  std::vector<std::string> globs;
  for (const SiteWrite& write : writes) {
    if (globs.empty() || globs.back() != write.glob) globs.push_back(write.glob);
  }
  if (globs.empty()) globs.emplace_back("");  // none, not the default set
  return globs;
}

void apply(const SiteWrite& write, const SiteId& id, const Tensor& value, const WritePart& part) {
  if (id.value == kProbeValue) throw BadInput("--set", "{}: a probe is only read", write.text);
  const int rank = value.shape.rank();
  if (static_cast<int>(write.index.size()) > rank) {
    throw BadInput("--set", "{}: the index has more entries than {}, which has shape {}", write.text, name_of(id),
                   to_string(value.shape));
  }
  const std::span<const Dim> dims = info(id).shape.dims();
  Interval changed[Shape::kMaxRank];
  std::span<const std::int64_t> positions[Shape::kMaxRank];
  for (int i = 0; i < rank; ++i) {
    const auto axis = static_cast<std::size_t>(i);
    const bool has_tokens =
        !part.positions.empty() && axis < dims.size() && (dims[axis] == dims::T || dims[axis] == dims::S);
    if (has_tokens && dims[axis] == dims::T) positions[i] = part.positions;
    const SiteWrite::Range range = axis < write.index.size() ? write.index[axis] : SiteWrite::Range{};
    changed[i] = resolve(write, range, id, value.shape, i, has_tokens);
  }
  const std::span<const std::byte> stored = stored_values(write, id, value.shape);
  if (part.count == 0) return;
  for (int i = 0; i < rank; ++i) changed[i] = in_value(changed[i], positions[i], value.shape[i]);
  narrow(changed, value.shape, part.first, part.count);
  for_each_in(changed, value.shape, [&](std::int64_t flat) {
    if (flat < part.first || flat >= part.first + part.count) return;
    float& x = value.data[flat];
    float from_file = 0;
    if (!stored.empty()) std::memcpy(&from_file, stored.data() + 4 * flat, 4);
    x = !stored.empty()                       ? from_file
        : write.op == SiteWrite::Op::set      ? write.value
        : write.op == SiteWrite::Op::multiply ? x * write.value
                                              : x + write.value;
    if (part.factor.data == nullptr || write.op == SiteWrite::Op::add) return;
    part.factor.data[flat] *= write.op == SiteWrite::Op::multiply ? write.value : 0.0f;
  });
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

}  // namespace vitrine
