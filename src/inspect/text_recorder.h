// Reading and modifying the sites of a text that is read at once, in a pass that may have rows of other sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inspect/sequence_recorder.h"

namespace vitrine {

/// Taps of a sequence whose tokens are all read in one pass, for which an Engine needs the memory of its activations.
/// The values are those of `vitrine trace`: also the raw scores of later positions, which a SequenceRecorder does not
/// have, and indices of tokens may count from the end.
class TextRecorder : public SequenceTaps {
 public:
  /// Of a text of `n` tokens. Without globs: the default set of sites. Throws what SequenceRecorder throws, except for
  /// raw scores and indices from the end.
  TextRecorder(const Model& model, std::vector<std::string> globs, std::vector<SiteWrite> writes, std::int64_t n,
               AppliedDictionaries dictionaries = {});

  TextRecorder(const TextRecorder&) = delete;
  TextRecorder& operator=(const TextRecorder&) = delete;

  /// The bytes of all values that are read or written, if tokens are spread evenly over the experts.
  std::int64_t bytes() const { return bytes_; }
  /// An upper bound on the number of values.
  std::int64_t max_sites() const { return recorder_.max_sites(); }
  /// The values, in the order of the forward. Throws BadInput if a glob or a write has matched no site.
  const std::vector<SequenceRecorder::Recorded>& recorded() const;

  bool wants(const SiteId& id) const override { return recorder_.wants(id); }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value, std::span<const std::int64_t> positions) override;
  void visit_step(Pass& pass, const SiteId& id, const Tensor& value, std::int64_t row, std::int64_t position) override;
  void visit_steps(Pass& pass, const SiteId& id, const Tensor& value) override;
  std::optional<SiteId> last_wanted() const override { return recorder_.last_wanted(); }
  bool needs_one_pass() const override { return true; }

 private:
  std::int64_t bytes_ = 0;
  std::vector<SequenceRecorder::Recorded> recorded_;
  Recorder recorder_;
};

/// The bytes of the values that globs select in a text of `n` tokens, if these are spread evenly over the experts.
std::int64_t recorded_bytes(const ModelConfig& config, const std::vector<std::string>& globs, std::int64_t n,
                            AppliedDictionaries dictionaries = {});

/// The number of bytes that the file of a trace reserves for the names and shapes of its values.
std::int64_t trace_header_bytes(std::int64_t max_sites);

}  // namespace vitrine
