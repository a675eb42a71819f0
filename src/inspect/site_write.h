// Modifications of sites, as text and as a change of a value.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "pass/sites.h"
#include "tensor/tensor.h"

namespace vitrine {

/// A modification of a site: `SITE[index]=value`, `SITE[index]*=factor` or `SITE[index]+=summand`; or
/// `SITE[index]=@FILE`, the same elements of the tensor SITE of a trace. The index has an
/// entry for each dimension from the left: a number (from the end if negative), a range `a:b`, or `:`. Omitted entries
/// are `:`. SITE may be a glob.
struct SiteWrite {
  enum class Op : std::uint8_t { set, multiply, add };
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool whole = true;      ///< `:`
    bool open_end = false;  ///< `a:`
  };

  std::string text;  ///< The original text, for messages.
  std::string glob;
  std::vector<Range> index;
  Op op = Op::set;
  float value = 0;
  std::shared_ptr<const SafetensorsFile> file{};  ///< If not null, the elements are its tensor's, not `value`.
};

/// Throws BadInput if the text is malformed, and as SafetensorsFile::open() does.
SiteWrite parse_site_write(std::string_view text);

/// Whether the literal end of a glob agrees with the last part of a site's name, in whatever layer. This excludes most
/// sites much faster than matches().
bool may_match(std::string_view glob, Site site);
bool may_match(std::string_view glob, const SiteId& id);
/// Whether a glob selects a site. Sites that are on demand need a glob that ends in their name.
bool matches(const std::string& glob, const SiteId& id);
/// The globs of the writes; one that selects nothing if there are none.
std::vector<std::string> globs_of(const std::vector<SiteWrite>& writes);

/// Which elements of a value a write may change.
struct WritePart {
  std::int64_t first = 0;
  std::int64_t count = 0;
  Tensor factor{};  ///< If it has data, its elements are multiplied by d(new value) / d(old value).
  /// The positions of the tokens of a value that has only some of a sequence's. Indices of tokens are then positions,
  /// and may be beyond the last one. Empty: the value has all tokens.
  std::span<const std::int64_t> positions{};
};
/// Applies a write to elements [first, first + count) of `value`. Throws BadInput if its index does not fit the shape.
void apply(const SiteWrite& write, const SiteId& id, const Tensor& value, const WritePart& part);

}  // namespace vitrine
