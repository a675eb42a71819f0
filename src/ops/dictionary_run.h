// The dictionaries of a pass, run at their sites (pass/dictionary.h).
//
// Pass::tap calls them with the value of a site after the taps have seen it. The output site of a dictionary is where
// it runs: its own values go through Pass::tap as all others, in the order of DictionarySite, and the forward continues
// with
//
//   read, or nothing written    y
//   error                       y + scale · Σ_i (a'_i − a_i) f_i W_dec[i] + scale · (r' − r) + (e' − e)
//   replace                     scale · r' + shift + W_skip x'
//
// where ' marks a value after writes, e is hook_sae_error, and scale and shift undo the scaling of the input. So rows
// without a write keep their bits. Only what a tap wants, or `replace` needs, is computed; activations exist as sparse
// rows unless a tap wants them all or there is a tape.
//
// A probe (pass/dictionary_sites.h) reads the value that the forward continues with, after the dictionaries at its
// site. Its logits have no gradient: nothing reads them.
//
// With a tape, the values of the dictionary have the gradients of `reconstruction + constant error`. In `read` they end
// at hook_sae_input, and the gradient of y is that of a pass without the dictionary. In `error` and `replace` the
// gradient of y is what flows through the dictionary.
#pragma once

#include <cstdint>
#include <span>

#include "pass/pass.h"

namespace vitrine {

/// Sets Pass::attached for the dictionaries of the pass's segments of which something is wanted. `ids` and `source` are
/// those of the rows. Throws Unsupported for a split and for recompute, and with a tape if the segments use a
/// dictionary in different ways.
void attach_dictionaries(Pass& p, std::span<const std::int32_t> ids, std::span<const std::int32_t> source);

}  // namespace vitrine
