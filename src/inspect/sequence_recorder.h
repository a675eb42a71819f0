// Reading and modifying the sites of one sequence, whose tokens arrive in any chunks, among those of other sequences.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "inspect/recorder.h"
#include "model/model.h"
#include "pass/segment_taps.h"

namespace vitrine {

/// Taps of a sequence that apply writes and record the selected values, after any write. Indices of tokens are
/// positions in the sequence, however it is divided into passes, and the recorded values are those of one pass over it.
///
/// Refused (BadInput): indices of tokens from the end, which is not known; writes of values from a file; writes of ids,
/// and of the choice of experts; an index of the tokens of an expert; the raw scores of later positions and the loss,
/// which are not computed while a text is generated.
class SequenceRecorder : public SequenceTaps {
 public:
  struct Recorded {
    std::string name;
    Shape shape;
    std::vector<float> values;
  };

  /// Without globs nothing is recorded. Throws as above; for a glob or a write that matches no site of the model; and
  /// for an index that is out of range.
  SequenceRecorder(const Model& model, std::vector<std::string> globs, std::vector<SiteWrite> writes,
                   AppliedDictionaries dictionaries = {});

  bool writes() const { return !writes_.empty(); }
  /// The values of all tokens so far, in the order of a forward.
  std::vector<Recorded> recorded() const;

  bool wants(const SiteId& id) const override {
    return id.site != Site::loss && (selection_.contains(id) || written_.contains(id));
  }
  Tensor visit(Pass& pass, const SiteId& id, const Tensor& value, std::span<const std::int64_t> positions) override;
  std::optional<SiteId> last_wanted() const override { return last_; }

 private:
  struct Precedes {
    bool operator()(const SiteId& a, const SiteId& b) const;
  };
  /// The rows of a site in ascending order of positions, one after another. Those of scores and patterns are `[H, S]`,
  /// of which each has an S of its own: the number of positions so far.
  struct Rows {
    std::int64_t next = 0;  // the first position that has not been seen
    std::int64_t n = 0;
    Shape of_one_pass;  // the shape of the value in the last pass
    std::vector<std::int64_t> n_positions;
    std::vector<float> values;
  };

  void check(const Model& model, AppliedDictionaries dictionaries);
  const std::vector<std::size_t>& writes_at(const SiteId& id);
  void record(const SiteId& id, const Tensor& value, std::span<const std::int64_t> positions);

  std::vector<std::string> globs_;
  std::vector<SiteWrite> writes_;
  SiteSelection selection_, written_;
  std::optional<SiteId> last_;
  std::vector<bool> glob_met_, write_met_;
  std::map<SiteId, Rows, Precedes> recorded_;
  std::map<SiteId, std::vector<std::size_t>, Precedes> writes_at_;
};

/// Throws BadInput for a write that a sequence among others cannot have: of values from a file, of ids, of the choice
/// of experts, of some tokens of an expert; and unless the number of tokens is known, for indices from the end.
void refuse_write(const SiteWrite& write, const SiteId& id, bool knows_end);

/// Throws Unsupported for a model with an encoder or recurrent layers, whose rows do not belong to one sequence.
void check_has_rows(const ModelConfig& config);

}  // namespace vitrine
