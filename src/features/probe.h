// Linear probes: maps from the value of a site to the logits of labels.
//
//   logits = x Wᵀ + b      x [T, d] the value of the site, heads next to each other, W [n, d], b [n]
//
// Of two labels n is 1, and the logit is that of the second; else there is a logit for each label. A file is a
// .safetensors with `weight` and `bias`, in F32, F16 or BF16; its metadata are `site`, `pool` and `labels`, a list in
// JSON. A probe is attached to a pass as a dictionary without a decoder. Source: Alain & Bengio 2016.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "features/load_dictionary.h"

namespace vitrine {

/// How the rows of a text become the one that a probe reads.
enum class ProbePool : std::uint8_t { last, mean };
std::string_view name_of(ProbePool pool);
/// Throws BadInput for another name than `last` and `mean`.
ProbePool probe_pool_named(const std::string& where, std::string_view name);

/// What a file says of its probe; "" and empty: nothing.
struct ProbeFacts {
  std::string site{}, pool{};
  std::vector<Json> labels{};  ///< Whole numbers, texts or truth values, ascending.
};

struct ReadProbe {
  std::shared_ptr<Dictionary> probe = std::make_shared<Dictionary>();  ///< Without sites.
  ProbeFacts facts{};
};

/// Its parameters are views of the file. Throws BadInput if the file cannot be read, Unsupported for a pickle and for
/// tensors that are not known, BadCheckpoint for tensors and metadata that are malformed or do not fit each other, and
/// for numbers that are not finite.
ReadProbe read_probe(const std::string& path);

/// The probe of a file, as `probe.NAME`: NAME is that of the text, else the file's name without its extension. Throws
/// as read_probe(); BadInput for a name that no site can have, for a site that is missing or that the model does not
/// have, and for a width that is not that of the site.
std::shared_ptr<const Dictionary> load_probe(const DictionaryText& text, const Model& model, ThreadPool& pool);

/// `weight` is `[n, d]`, `bias` `[n]`. Throws as FileWriter does.
void write_probe(const std::string& path, const ProbeFacts& facts, const std::vector<double>& weight,
                 const std::vector<double>& bias);

}  // namespace vitrine
