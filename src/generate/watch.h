// Functions of the caller that see and change the values of a forward.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace vitrine {

/// Receives one value of the forward: the name of the site (`blocks.3.attn.hook_q`), and its row-major elements with
/// their shape. The forward continues with `values` as the function leaves them. It is called on the calling thread; an
/// exception that it throws ends the call.
using SiteFunction =
    std::function<void(const std::string& name, std::span<float> values, std::span<const std::int64_t> shape)>;

/// The same without a copy: `value` is the forward's own memory, valid only during the call. If the function returns
/// true, it has written all elements of `replacement`, and the forward continues with them. In a run with gradients, no
/// gradient flows through the elements that it has changed.
using SiteTap = std::function<bool(const std::string& name, std::span<const std::int64_t> shape,
                                   std::span<const float> value, std::span<float> replacement)>;

/// The sites at which a function is called. In generate() and in a session, a forward processes one chunk of tokens: in
/// shapes, T is at most 256 for a prompt, and 1 in each later step. In trace(), it processes the whole prompt.
struct Watch {
  std::vector<std::string> sites{};  ///< Globs over names, as in TraceOptions; none: all but those on demand.
  SiteFunction function{};           ///< Either this,
  SiteTap tap{};                     ///< or this; both: BadInput.
};

}  // namespace vitrine
